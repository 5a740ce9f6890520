-- Which ranks do the others wait for?
-- One row per rank of a run whose collectives are matched.
-- Key: trace_id.
CREATE VIEW question.straggler (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Rank.
    rank,
    -- Collectives it takes part in.
    collective_count,
    -- Collectives for which it arrived last.
    last_count,
    -- [ns] Longest time for which a rank waited for it, summed over those.
    delayed_ns,
    -- [ns] Time in which it waited for other ranks of the run.
    waiting_ns,
    -- [ns] Time waiting for ranks that are not in the run, at least.
    absent_waiting_ns,
    -- [ns] Time in which data were moved.
    moving_ns,
    -- [ns] How far its clock is ahead of the run's.
    clock_offset_ns,
    -- [ns] Uncertainty of that offset; shorter waits are not significant.
    clock_uncertainty_ns,
    -- Whether the order of collectives could be different (`graph.clock`).
    is_ambiguous
) AS
WITH
delay AS (
    SELECT
        *,
        max(waiting_ns) OVER (PARTITION BY run_id, last_node_id) AS longest_ns
    FROM graph.collective
)

SELECT
    delay.run_id,
    delay.trace_id,
    rank,
    count(*),
    count(*) FILTER (node_id = last_node_id),
    coalesce(sum(longest_ns) FILTER (node_id = last_node_id), 0)::BIGINT,
    sum(waiting_ns)::BIGINT,
    sum(absent_waiting_ns)::BIGINT,
    sum(moving_ns)::BIGINT,
    any_value(offset_ns),
    any_value(uncertainty_ns),
    any_value(is_ambiguous)
FROM delay
INNER JOIN staging.trace USING (trace_id)
INNER JOIN graph.clock ON delay.trace_id = graph.clock.trace_id
GROUP BY delay.run_id, delay.trace_id, rank
ORDER BY delay.run_id, rank, delay.trace_id;
