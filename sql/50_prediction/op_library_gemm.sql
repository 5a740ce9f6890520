-- Matrix multiplications of libraries (vLLM, SGLang, FBGEMM, AITER, TE), most of quantized
-- matrices with scales: A is [.., m, k]; B has n k elements in either order, or for a batch
-- [batch, ..]. Types of four bits are two per byte. Marlin's B is packed in tiles: n is the value
-- between those of m and k. FLOPs are 2 m n k, A and B are read as they are stored, and the
-- result is written: the argument that holds it, otherwise of A's type, of 2 bytes at least.
-- Scales are ignored. What multiplies is A's type; B's, if A is quantized on the way (`w8a8`).
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_library_gemm (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `mm` or `bmm`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Batch size.
    batch,
    -- Rows of A, in each.
    m,
    -- Columns of B.
    n,
    -- Length of the sums.
    k,
    -- [B] Total bytes read.
    input_bytes,
    -- [B] Total bytes written.
    output_bytes,
    -- Arithmetic units, as in `prediction.arithmetic_unit`.
    unit,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
listed AS (
    FROM (VALUES
        -- The result, A, B; four-bit types as bytes.
        ('_C::cutlass_scaled_mm(_azp)?|sgl_kernel::dsv3_(fused_a|router)_gemm', 1, 2, 0, 1),
        ('(_C|sgl_kernel)::cutlass_scaled_fp4_mm', 1, 2, 0, 2),
        -- A, B, and perhaps the result.
        ('sgl_kernel::(int8|fp8|fp8_blockwise)_scaled_mm', 0, 1, NULL, 1),
        ('sgl_kernel::bmm_fp8', 0, 1, 2, 1),
        ('flashinfer::bmm_fp8', 1, 2, 3, 1),
        -- Either may be transposed: k follows from the elements of A, B and the result.
        ('tex_ts::te_gemm_ts', 0, 5, 10, 1),
        (
            '(fbgemm|mslk)::(f8f8bf16|i8i8bf16)(_(rowwise|blockwise|cublas|tensorwise|lite'
            || '|dynamic|batched|out))*',
            0, 1, NULL, 1
        ),
        (
            'aiter::(wrapper_)?gemm_a(8w8|16w16)(_(ck|asm|cktile|tune|blockscale|bpreshuffle))*'
            || '|vllm::rocm_aiter_(triton_)?gemm_[aw]8[aw]8(_blockscale)?'
            || '|vllm::(rocm_unquantized_gemm(_impl)?|(w8a8|apply_w8a8_block_fp8)\w*)'
            || '|_rocm_C::(wvSplitK(rc|Q)?|LLMM1)',
            0, 1, NULL, 1
        ),
        ('aiter::(wrapper_)?gemm_a4w4(_(asm|blockscale|bpreshuffle))*', 0, 1, NULL, 2),
        -- Weights of four bits: their number follows from the values of m, n and k.
        ('(_C|sgl_kernel|vllm)::(gptq_|awq_|fp8_)?marlin_gemm', 0, NULL, NULL, 1)
    ) AS listed (pattern, a_place, b_place, result_place, packed)
),

named AS (
    SELECT trace_id, name, bare_name, listed.*
    FROM prediction.op_name
    INNER JOIN listed ON regexp_full_match(bare_name, pattern)
),

operand AS (
    SELECT
        *,
        [t for t in tensors if t.argument = a_place][1] AS a,
        -- Marlin's B follows A, or an optional result of the same columns as it.
        coalesce(
            [t for t in tensors if t.argument = b_place][1],
            CASE
                WHEN b_place IS NULL THEN [
                    t for t in tensors
                    if t.argument > a_place AND t.element.name IN ('int32', 'uint8', 'int8')
                ][1]
            END
        ) AS b,
        [t for t in tensors if t.argument = result_place][1] AS result,
        -- B's columns are the value between A's rows and its columns.
        coalesce(json_extract_string(concrete_inputs, '$[*]'), []) AS given
    FROM prediction.op_shape
    INNER JOIN named USING (trace_id, name)
    WHERE is_complete
),

sized AS (
    SELECT
        *,
        CASE WHEN len(a.dims) = 3 AND len(b.dims) = 3 THEN a.dims[1] ELSE 1 END AS batch,
        CASE
            WHEN packed = 2 THEN {'size': 1, 'name': 'float4', 'unit': 'fp4'}
            WHEN contains(bare_name, 'w8a8') THEN b.element
            ELSE a.element
        END AS multiplied,
        CASE
            WHEN bare_name = 'tex_ts::te_gemm_ts'
                THEN round(sqrt(a.elements::DOUBLE * b.elements / nullif(result.elements, 0)))
            ELSE a.dims[-1] * packed
        END::BIGINT AS k,
        TRY(a.elements * packed // k // batch) AS m,
        CASE
            WHEN b_place IS NOT NULL
                THEN TRY(
                    b.elements * greatest(packed, CASE WHEN bare_name LIKE '%i4bf16%' THEN 2 END)
                    // k // batch
                )
            ELSE try_cast(given[list_position([
                given[place - 1] = m::VARCHAR AND given[place + 1] = k::VARCHAR
                for place in generate_series(1, len(given))
            ], true)] AS BIGINT)
        END AS n
    FROM operand
    WHERE a.elements > 0 AND b IS NOT NULL
),

problem AS (
    SELECT
        * EXCLUDE (input_bytes),
        CASE WHEN batch > 1 THEN 'bmm' ELSE 'mm' END AS op,
        multiplied.name AS dtype,
        multiplied.unit AS unit,
        a.size + b.size AS input_bytes,
        coalesce(
            result.size, TRY(batch * m * n * greatest(a.element.size, 2))
        )::BIGINT AS output_bytes,
        is_dtype_known AND a.element.size IN (2, 4) AND a.element = b.element AS is_exact
    FROM sized
    WHERE n > 0 AND m > 0
)

SELECT
    op_id, run_id, trace_id, 'gemm' AS family, op, dtype,
    coalesce(batch, 1) AS batch,
    m, n, k, input_bytes, output_bytes, unit,
    2 * coalesce(batch, 1)::DOUBLE * m * n * k AS flops,
    input_bytes AS read_bytes,
    output_bytes AS written_bytes,
    is_exact
FROM problem;
