-- Fused attention: Q is [batch, queries, heads, d] and K [batch, keys, heads, d]
-- (`_scaled_dot_product_*`: heads before queries and keys). Each query is multiplied with
-- each key that it sees, and the values by the result: 2 GEMMs of 2 FLOPs per element,
-- backward 5. Under a causal mask the last query sees all keys, and each query before it
-- one fewer: a single query sees all of them. Q, K and V are read (backward also the result
-- and its gradient), as much as Q is written (backward: Q, K and V).
-- One row per attention op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_attention (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `forward` or `backward`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Sequences.
    images,
    -- Heads of Q.
    heads,
    -- Heads of K.
    kv_heads,
    -- Queries of a sequence.
    queries,
    -- Keys of a sequence.
    keys,
    -- Elements of a head.
    head_dim,
    -- 1 if attention is causal, otherwise 0.
    causal,
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
operand AS (
    SELECT
        *,
        regexp_matches(name, 'backward') AS is_backward,
        CASE WHEN regexp_matches(name, 'backward') THEN tensors[2] ELSE tensors[1] END AS q,
        CASE WHEN regexp_matches(name, 'backward') THEN tensors[3] ELSE tensors[2] END AS k,
        regexp_matches(name, '_scaled_dot_product_') AS is_heads_first,
        CASE
            WHEN name LIKE '%_flash_attention_forward' THEN '$[8]'
            WHEN name LIKE '%_attention_backward' THEN '$[11]'
            WHEN name LIKE '%_scaled_dot_product_flash_attention' THEN '$[4]'
            WHEN name LIKE '%_scaled_dot_product_%_attention' THEN '$[6]'
            WHEN name LIKE '%_efficient_attention_forward' THEN '$[9]'
        END AS causal_ordinal
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name, '_scaled_dot_product_.*|_(flash|efficient|cudnn)_attention_.*'
        )
),

problem AS (
    SELECT
        * EXCLUDE (element_bytes),
        q.element.size AS element_bytes,
        q.element.name AS dtype,
        q.element.unit AS unit,
        CASE WHEN is_backward THEN 'backward' ELSE 'forward' END AS op,
        q.dims[1] AS images,
        q.dims[CASE WHEN is_heads_first THEN 2 ELSE 3 END] AS heads,
        k.dims[CASE WHEN is_heads_first THEN 2 ELSE 3 END] AS kv_heads,
        q.dims[CASE WHEN is_heads_first THEN 3 ELSE 2 END] AS queries,
        k.dims[CASE WHEN is_heads_first THEN 3 ELSE 2 END] AS keys,
        q.dims[4] AS head_dim,
        coalesce(concrete_inputs ->> causal_ordinal IN ('True', '1'), false)::BIGINT AS causal,
        is_dtype_known AND q.element.size IN (2, 4) AS is_exact
    FROM operand
    WHERE len(q.dims) = 4 AND len(k.dims) = 4
)

SELECT
    op_id, run_id, trace_id, 'attention' AS family, op, dtype,
    images,
    heads,
    coalesce(kv_heads, heads) AS kv_heads,
    queries,
    keys,
    head_dim,
    coalesce(causal, 0) AS causal,
    unit,
    2 * (CASE op WHEN 'backward' THEN 5 ELSE 2 END) * images::DOUBLE * heads * head_dim * (
        CASE
            WHEN causal > 0
                THEN least(queries, keys) * (keys - (least(queries, keys) - 1) / 2)
            ELSE queries::DOUBLE * keys
        END
    ) AS flops,
    try_cast(images::DOUBLE * head_dim * element_bytes * (
        CASE op WHEN 'backward' THEN 3 ELSE 1 END * queries * heads
        + 2 * keys * coalesce(kv_heads, heads)
    ) AS BIGINT) AS read_bytes,
    try_cast(images::DOUBLE * head_dim * element_bytes * (
        queries * heads
        + CASE op WHEN 'backward' THEN 2 ELSE 0 END * keys * coalesce(kv_heads, heads)
    ) AS BIGINT) AS written_bytes,
    is_exact
FROM problem;
