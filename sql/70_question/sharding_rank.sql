-- What does each rank do for the embedding tables, and how long does it take? For the plans
-- of `tracedb shard`. Lookups are separate launches: their parts add up.
-- One row per plan, split and rank.
-- Key: plan, split, rank.
CREATE VIEW question.sharding_rank (
    -- The plan.
    plan,
    -- Which tables it splits.
    split,
    -- The rank.
    rank,
    -- Its shards, including whole tables.
    shard_count,
    -- [ns] Its lookups.
    forward_ns,
    -- [ns] Lower end of their band.
    forward_low_ns,
    -- [ns] Upper end of their band.
    forward_high_ns,
    -- [ns] Gradients and updates of its shards.
    backward_ns,
    -- [ns] Lower end of their band.
    backward_low_ns,
    -- [ns] Upper end of their band.
    backward_high_ns,
    -- [B] Bytes it sends forward, including its own part: sums for the examples of all
    -- ranks. The same amount of gradients returns.
    sent_bytes,
    -- [B] Indices it receives.
    index_bytes,
    -- [B] Its shards with their optimizer state.
    memory_bytes,
    -- Whether they fit; NULL if the limit is unknown.
    fits
) AS
WITH
total AS (
    SELECT
        plan, split, rank, limit_bytes,
        count(ordinal) AS shard_count,
        -- One launch per direction, or a placeholder for none.
        count(ordinal) > 0 AS is_launched,
        {
            'forward': coalesce(sum(forward_ns), 0),
            'forward_low': coalesce(sum(forward_low_ns), 0),
            'forward_high': coalesce(sum(forward_high_ns), 0),
            'backward': coalesce(sum(backward_ns), 0),
            'backward_low': coalesce(sum(backward_low_ns), 0),
            'backward_high': coalesce(sum(backward_high_ns), 0)
        } AS shards,
        coalesce(sum(sent_bytes), 0)::BIGINT AS sent_bytes,
        coalesce(sum(index_bytes), 0)::BIGINT AS index_bytes,
        coalesce(sum(memory_bytes), 0)::BIGINT AS memory_bytes
    FROM (SELECT DISTINCT plan, split FROM reference.shard_placement)
    CROSS JOIN (
        SELECT limit_bytes, unnest(range(ranks)) AS rank FROM reference.sharding
    )
    LEFT JOIN prediction.placed_shard USING (plan, split, rank)
    GROUP BY ALL
),

-- For a launch without lookups, which all lookups of a rank share.
launch AS (
    SELECT direction, estimate_ns, low_ns, high_ns
    FROM reference.shard_estimate
    WHERE rows = 0
)

SELECT
    plan,
    split,
    rank,
    shard_count,
    (shards['forward'] + is_launched::BIGINT * ahead.estimate_ns)::BIGINT,
    (shards['forward_low'] + is_launched::BIGINT * ahead.low_ns)::BIGINT,
    (shards['forward_high'] + is_launched::BIGINT * ahead.high_ns)::BIGINT,
    (shards['backward'] + is_launched::BIGINT * back.estimate_ns)::BIGINT,
    (shards['backward_low'] + is_launched::BIGINT * back.low_ns)::BIGINT,
    (shards['backward_high'] + is_launched::BIGINT * back.high_ns)::BIGINT,
    sent_bytes,
    index_bytes,
    memory_bytes,
    memory_bytes <= limit_bytes
FROM total
INNER JOIN launch AS ahead ON ahead.direction = 'forward'
INNER JOIN launch AS back ON back.direction = 'backward'
ORDER BY plan, split, rank;
