-- The library whose fused attention an op launched, by the names of its kernels: their times on
-- one GPU differ by up to a factor of two.
-- One row per op with such kernels.
-- Key: op_id.
CREATE VIEW prediction.attention_kernel (
    -- The op.
    op_id,
    -- FlashAttention 2, 3 and 4 (`fa2`, `fa3`, `fa4`), TensorRT-LLM's (`trtllm`), or `other`.
    implementation
) AS
SELECT
    op_id,
    min(CASE
        WHEN regexp_matches(name, 'flash_?attn_?cute|FlashAttention(For|Back)wardSm') THEN 'fa4'
        WHEN regexp_matches(name, 'FlashAttn(Fwd|Bwd)[A-Z]|compute_attn_ws') THEN 'fa3'
        WHEN regexp_matches(name, 'fmhaSm\d|fmha_v2') THEN 'trtllm'
        WHEN regexp_matches(name, '(?i)cudnn|fmha|attn_') THEN 'other'
        ELSE 'fa2'
    END)
FROM staging.gpu_op
WHERE op_id IS NOT NULL AND regexp_matches(name, '(?i)flash_?att|flash_(fwd|bwd)_|fmha|sdpa|attn_')
GROUP BY op_id;
