-- How should embedding tables be distributed over ranks? What they add to a step under each
-- plan of `tracedb shard`, the best one first, and plans that do not fit last. Once the
-- slowest rank has finished its lookups, all ranks exchange the results; they exchange
-- gradients before any rank starts with its own. Indices, if they are sent in the step,
-- come first. Nothing else is assumed to run at the same time.
-- One row per plan and split.
-- Key: plan, split.
CREATE VIEW question.sharding (
    -- The plan: `naive`, `size`, `lookups`, `cost`, `searched`, or your own.
    plan,
    -- Which tables it splits: `none`; by `column` or by `row`, those too large or too slow
    -- for a rank; or `any`, chosen by the search.
    split,
    -- Its position among the plans that fit, from 1; NULL: it does not fit.
    place,
    -- [ns] What the tables add to a step.
    added_ns,
    -- [ns] Lower end of its band.
    low_ns,
    -- [ns] Upper end of its band.
    high_ns,
    -- [ns] Lookups of the rank with the slowest lookups.
    forward_ns,
    -- [ns] Gradients and updates of the rank with the slowest ones.
    backward_ns,
    -- [ns] All-to-alls of sums and of their gradients, together.
    exchange_ns,
    -- [ns] All-to-all of indices; 0 if they are not sent in the step.
    index_exchange_ns,
    -- The rank whose lookups and gradients take longest, the first of equals.
    slowest_rank,
    -- [1] Mean share of its time for which the other ranks wait for it.
    imbalance_share,
    -- [B] Bytes sent by the rank that sends most, including its own part, in one direction.
    sent_bytes,
    -- [B] Tables and optimizer state, on the rank with the most.
    memory_bytes,
    -- [B] Limit for that; NULL: unknown.
    limit_bytes
) AS
WITH
exchange_point AS (
    SELECT
        *,
        lead(message_bytes) OVER later - message_bytes AS wide,
        lead(estimate_ns) OVER later - estimate_ns AS rise_ns,
        lead(low_ns) OVER later - low_ns AS low_rise_ns,
        lead(high_ns) OVER later - high_ns AS high_rise_ns
    FROM reference.exchange_estimate
    WINDOW later AS (ORDER BY message_bytes)
),

busiest AS (
    SELECT
        plan,
        split,
        max(forward_ns) AS forward_ns,
        max(forward_low_ns) AS forward_low_ns,
        max(forward_high_ns) AS forward_high_ns,
        max(backward_ns) AS backward_ns,
        max(backward_low_ns) AS backward_low_ns,
        max(backward_high_ns) AS backward_high_ns,
        arg_max(rank, (forward_ns + backward_ns, -rank)) AS slowest_rank,
        1 - avg(forward_ns + backward_ns) / nullif(max(forward_ns + backward_ns), 0)
        AS imbalance_share,
        max(sent_bytes) AS sent_bytes,
        max(index_bytes) AS index_bytes,
        max(memory_bytes) AS memory_bytes,
        coalesce(bool_and(fits), true) AS has_room
    FROM question.sharding_rank
    GROUP BY plan, split
),

message AS (
    SELECT plan, split, true AS is_sums, 2 AS times, sent_bytes AS message_bytes
    FROM busiest
    UNION ALL
    SELECT plan, split, false, sends_indices::BIGINT, index_bytes
    FROM busiest
    CROSS JOIN reference.sharding
),

on_line AS (
    SELECT
        plan,
        split,
        is_sums,
        times,
        coalesce((message.message_bytes - exchange_point.message_bytes) / nullif(wide, 0), 0) AS along,
        times * floor(estimate_ns + along * coalesce(rise_ns, 0) + 0.5) AS taken_ns,
        times * floor(low_ns + along * coalesce(low_rise_ns, 0) + 0.5) AS low_ns,
        times * floor(high_ns + along * coalesce(high_rise_ns, 0) + 0.5) AS high_ns
    FROM message
    ASOF INNER JOIN exchange_point ON message.message_bytes >= exchange_point.message_bytes
),

exchange AS (
    SELECT
        plan,
        split,
        sum(taken_ns) FILTER (is_sums)::BIGINT AS exchange_ns,
        sum(taken_ns) FILTER (NOT is_sums)::BIGINT AS index_exchange_ns,
        sum(low_ns)::BIGINT AS low_ns,
        sum(high_ns)::BIGINT AS high_ns
    FROM on_line
    GROUP BY plan, split
)

SELECT
    plan,
    split,
    CASE
        WHEN has_room
            THEN row_number() OVER (
                PARTITION BY has_room
                ORDER BY forward_ns + backward_ns + exchange_ns + index_exchange_ns, plan, split
            )
    END AS place,
    forward_ns + backward_ns + exchange_ns + index_exchange_ns AS added_ns,
    forward_low_ns + backward_low_ns + low_ns,
    forward_high_ns + backward_high_ns + high_ns,
    forward_ns,
    backward_ns,
    exchange_ns,
    index_exchange_ns,
    slowest_rank,
    imbalance_share,
    sent_bytes,
    memory_bytes,
    limit_bytes
FROM busiest
INNER JOIN exchange USING (plan, split)
CROSS JOIN (SELECT limit_bytes FROM reference.sharding)
ORDER BY place NULLS LAST, added_ns, plan, split;
