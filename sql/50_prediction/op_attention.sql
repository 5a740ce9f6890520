-- Work of fused attention: Q is [batch, queries, heads, d] and K [batch, keys, heads, d]
-- (`_scaled_dot_product_*`: heads before queries and keys). FLOPs 4 keys per element of Q
-- (two products), half of it under a causal mask, 2.5 times as many backward (five
-- products). Reads the arguments, writes as much as Q (backward: Q, K and V).
-- One row per attention op of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_attention (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Whether it is the backward pass.
    is_backward,
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
    -- Whether a query sees the keys before it only.
    is_causal,
    -- [FLOP] Multiplications and additions.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes
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
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'attention' AND is_complete
),

measured AS (
    SELECT
        *,
        k.dims[CASE WHEN is_heads_first THEN 3 ELSE 2 END] AS keys,
        q.dims[CASE WHEN is_heads_first THEN 2 ELSE 3 END] AS heads,
        k.dims[CASE WHEN is_heads_first THEN 2 ELSE 3 END] AS kv_heads,
        q.dims[CASE WHEN is_heads_first THEN 3 ELSE 2 END] AS queries,
        coalesce(concrete_inputs ->> causal_ordinal IN ('True', '1'), false) AS is_causal
    FROM operand
    WHERE len(q.dims) = 4 AND len(k.dims) = 4
)

SELECT
    op_id,
    run_id,
    trace_id,
    is_backward,
    q.dims[1],
    heads,
    kv_heads,
    queries,
    keys,
    q.dims[4],
    is_causal,
    TRY((
        4 * q.elements * keys
        * (CASE WHEN is_causal THEN 0.5 ELSE 1 END)
        * (CASE WHEN is_backward THEN 2.5 ELSE 1 END)
    )::BIGINT),
    input_bytes,
    (q.size + (CASE WHEN is_backward THEN 2 * k.size ELSE 0 END))::BIGINT
FROM measured;
