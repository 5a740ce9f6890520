-- What names of kernels say: whether they multiply matrices, in which type, and how they address
-- memory. A million kernels have a few hundred names.
-- One row per name of a kernel.
-- Key: name.
CREATE VIEW prediction.kernel_name (
    -- Name of the kernel.
    name,
    -- Whether it performs the arithmetic of a GEMM or a convolution.
    is_main,
    -- Whether it multiplies in TF32.
    is_tf32,
    -- Whether it multiplies in fp32.
    is_fp32,
    -- Whether it multiplies matrices of types of at most 16 bits, also in attention.
    is_half,
    -- Whether it multiplies types of 8 bits; not those that only weights are stored in.
    is_byte,
    -- Whether it moves 16 bytes at a time.
    is_vectorized,
    -- Whether it addresses elements individually, as for non-contiguous tensors.
    is_strided
) AS
SELECT
    name,
    regexp_matches(
        any_name,
        '(?i)gemm|gemv|dot_kernel|matmul|xmma|conv([^e]|$)|fprop|dgrad|wgrad|fft'
        || '|[a-z0-9]cudnn_|cutlass|Kernel2|Cijk|winograd_small|implicit|nvjet|wvSplitK'
        || '|(^|_)b?mm(_|$)|^triton_tem_|scaled_mm|mul_mat|marlin|fused_moe|fmoe'
    ) AND NOT regexp_matches(
        -- A generated kernel's name lists what it fuses.
        any_name,
        'Offsets|gemm_pointers|prepare_grouped_gemm|ReduceSplitK|reduce_1Block'
        || '|_finalize_matmul|cutlass_kernel_\w*norm|^triton_(poi|red|per|for|unk|split_scan)_'
    ) AS is_main,
    regexp_matches(any_name, 'tf32|s1688'),
    regexp_matches(any_name, 'sgemm|scudnn'),
    -- By the type's name, in mangled ones as `DF16`; in Tensile's and nvjet's those of A and B.
    (is_main OR regexp_matches(any_name, '(?i)attention|attn|fmha|flash_(fwd|bwd)'))
    AND regexp_matches(
        any_name,
        '(?i)(bf|bfloat|fp|float|[^a-z0-9]f)16|half|DF16|e4m3|e5m2|float8|fp8|mxfp4|nvfp4'
        || '|Cijk_[a-z]+_[a-z]+_(B|H|F8|B8)_?(B|H|F8|B8)|nvjet_(sm\d+_)?[thqo]|hgemm|h884|h1688'
    ) AND NOT regexp_matches(any_name, 'tf32|sgemm|scudnn'),
    regexp_matches(any_name, '(?i)e4m3|e5m2|(^|[^a-z0-9])fp8|_f8[a-z]*_|float8')
    AND NOT regexp_matches(any_name, '(?i)marlin'),
    regexp_matches(
        any_name, 'vectorized_gather|CatArrayBatchedCopy_(vectorized|aligned16)'
    ),
    regexp_matches(
        any_name, '\bat::native::(elementwise_kernel\b|elementwise_kernel_manual_unroll)'
    )
FROM (
    SELECT name, any_value(name) AS any_name
    FROM staging.gpu_op
    WHERE kind = 'kernel'
    GROUP BY name
);
