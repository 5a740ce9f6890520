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
    -- [ns] Time in which another rank waited for it.
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
part AS (
    SELECT
        own.run_id,
        own.trace_id,
        node_id = last_node_id AS is_last,
        last.trace_id AS awaited_trace_id,
        own.last_arrival_ns - own.waiting_ns AS start_ns,
        own.last_arrival_ns AS arrival_ns,
        own.last_arrival_ns + own.absent_waiting_ns AS all_arrival_ns,
        own.last_arrival_ns + own.absent_waiting_ns + own.moving_ns AS end_ns,
        shift_ns
    FROM graph.collective AS own
    INNER JOIN (SELECT node_id AS last_node_id, trace_id FROM graph.collective) AS last
        USING (last_node_id)
    INNER JOIN graph.clock AS clock ON own.trace_id = clock.trace_id
),

-- Collectives on several streams or threads overlap: their time counts once.
timed AS (
    SELECT
        *,
        staging.uncovered_ns(start_ns, arrival_ns, trace_id, NULL, NULL) AS waiting_ns,
        staging.uncovered_ns(arrival_ns, all_arrival_ns, trace_id, NULL, NULL)
        AS absent_waiting_ns,
        staging.uncovered_ns(all_arrival_ns, end_ns, trace_id, NULL, NULL) AS moving_ns,
        staging.uncovered_ns(
            start_ns + shift_ns, arrival_ns + shift_ns, awaited_trace_id, NULL, NULL
        ) AS caused_ns
    FROM part
),

caused AS (
    SELECT awaited_trace_id, sum(caused_ns) AS delayed_ns
    FROM timed
    GROUP BY awaited_trace_id
)

SELECT
    timed.run_id,
    timed.trace_id,
    rank,
    count(*),
    count(*) FILTER (is_last),
    coalesce(any_value(delayed_ns), 0)::BIGINT,
    sum(waiting_ns)::BIGINT,
    sum(absent_waiting_ns)::BIGINT,
    sum(moving_ns)::BIGINT,
    any_value(offset_ns),
    any_value(uncertainty_ns),
    any_value(is_ambiguous)
FROM timed
INNER JOIN staging.trace USING (trace_id)
INNER JOIN graph.clock AS clock ON timed.trace_id = clock.trace_id
LEFT JOIN caused ON timed.trace_id = caused.awaited_trace_id
GROUP BY timed.run_id, timed.trace_id, rank
ORDER BY timed.run_id, rank, timed.trace_id;
