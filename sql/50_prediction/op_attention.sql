-- Fused attention (`prediction.fused_attention`): Q is [batch, queries, heads, d] and K [batch,
-- keys, heads, d] (`_scaled_dot_product_*`: heads before queries and keys). Each query is
-- multiplied with each key that it sees, and the values by the result: 2 GEMMs of 2 FLOPs per
-- element, backward 5. Under a causal mask the last query sees all keys, and each query before it
-- one fewer: a single query sees all of them. A window limits how many. Q, K and V are read
-- (backward also the result and its gradient), as much as Q is written (backward: Q, K and V).
-- Sequences of different lengths follow each other, [tokens, heads, d], with their starts in a
-- tensor of its own. Its values are not recorded, only the greatest length M. With a mean m the
-- sequences count as such of length M^2 / (2 M - m): exact if all have M, otherwise what lengths
-- from 0 to M have whose mean is m, if they are as n^a. Keys in pages are as many as the longest
-- sequence has.
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
    -- Elements of a head; the mean of its keys and its values.
    head_dim,
    -- 1 if attention is causal, otherwise 0.
    causal,
    -- Keys that a query sees at most; NULL: all.
    visible_keys,
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
sized AS (
    SELECT
        *,
        -- The mean and the greatest length of a sequence's queries.
        CASE
            WHEN len(q.dims) = 3 OR is_efficient AND q.dims[1] = 1 AND starts IS NOT NULL
                THEN q.dims[-3]
        END AS tokens,
        tokens / nullif(starts.dims[1] - 1, 0) AS mean_length,
        greatest(most_queries, mean_length) AS most_length,
        CASE
            WHEN tokens IS NULL THEN q.dims[1]
            WHEN mean_length > 0
                THEN greatest(round(tokens * (2 * most_length - mean_length) / most_length ** 2), 1)
        END AS sequences
    FROM prediction.fused_attention
),

problem AS (
    SELECT
        *,
        q.element.size AS element_bytes,
        q.element.name AS dtype,
        q.element.unit AS unit,
        CASE WHEN is_backward THEN 'backward' ELSE 'forward' END AS op,
        sequences::BIGINT AS images,
        q.dims[CASE WHEN is_heads_first THEN -3 ELSE -2 END] AS heads,
        k.dims[CASE WHEN is_heads_first THEN -3 ELSE -2 END] AS kv_heads,
        CASE
            WHEN tokens IS NOT NULL THEN round(tokens / images)::BIGINT
            ELSE q.dims[CASE WHEN is_heads_first THEN -2 ELSE -3 END]
        END AS queries,
        CASE
            WHEN is_paged THEN most_keys
            WHEN tokens IS NOT NULL THEN round(k.dims[-3] / images)::BIGINT
            ELSE k.dims[CASE WHEN is_heads_first THEN -2 ELSE -3 END]
        END AS keys,
        (q.dims[-1] + coalesce(v.dims[-1], q.dims[-1])) // 2 AS head_dim,
        is_causal::BIGINT AS causal,
        CASE
            WHEN is_causal AND left_keys BETWEEN 0 AND keys - 2 THEN left_keys + 1
            WHEN NOT is_causal AND left_keys BETWEEN 0 AND keys - 2 AND right_keys > 0
                AND queries = keys
                THEN left_keys + least(right_keys, keys) + 1
        END AS visible_keys,
        is_dtype_known AND q.element.size IN (2, 4) AND NOT is_paged
        AND CASE
            WHEN tokens IS NULL THEN starts IS NULL
            ELSE coalesce(most_queries = mean_length, false)
        END AS is_exact
    FROM sized
    WHERE sequences IS NOT NULL
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
    visible_keys,
    unit,
    2 * (CASE op WHEN 'backward' THEN 5 ELSE 2 END) * images::DOUBLE * heads * head_dim
    -- Of all pairs: without those that come later, and those too far before (or after).
    * (
        CASE
            WHEN causal > 0
                THEN least(queries, keys) * (keys - (least(queries, keys) - 1) / 2)
                - least(keys - coalesce(visible_keys, keys), queries)::DOUBLE * (
                    2 * (keys - coalesce(visible_keys, keys)) + 1
                    - least(keys - coalesce(visible_keys, keys), queries)
                ) / 2
            ELSE queries::DOUBLE * keys
                - (keys - coalesce((visible_keys + 1) / 2, keys))
                * (keys - coalesce((visible_keys - 1) / 2, keys))
        END
    ) AS flops,
    try_cast(images::DOUBLE * head_dim * element_bytes * (
        CASE op WHEN 'backward' THEN 3 ELSE 1 END * queries * heads
        + 2 * keys::DOUBLE * coalesce(kv_heads, heads)
    ) AS BIGINT) AS read_bytes,
    try_cast(images::DOUBLE * head_dim * element_bytes * (
        queries * heads
        + CASE op WHEN 'backward' THEN 2 ELSE 0 END * keys::DOUBLE * coalesce(kv_heads, heads)
    ) AS BIGINT) AS written_bytes,
    is_exact
FROM problem;
