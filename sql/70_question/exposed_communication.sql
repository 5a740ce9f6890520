-- How much communication is not hidden behind computation?
-- One row per device of a trace that communicates.
-- Key: trace_id, device.
-- Counts: staging.gpu_op.
CREATE VIEW question.exposed_communication (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Device.
    device,
    -- [ns] Time in which a collective was running.
    communication_ns,
    -- [ns] Part of that time in which nothing else was running.
    exposed_ns,
    -- [1] Their ratio.
    exposed_share
) AS
WITH
change AS (
    SELECT
        run_id,
        trace_id,
        device,
        unnest([start_ns, end_ns]) AS at_ns,
        unnest([1, -1]) * is_collective::INTEGER AS communicating,
        unnest([1, -1]) * (NOT is_collective)::INTEGER AS computing
    FROM staging.gpu_op
    WHERE kind <> 'other'
),

stretch AS (
    SELECT
        run_id,
        trace_id,
        device,
        lead(at_ns) OVER in_order - at_ns AS time_ns,
        sum(communicating) OVER in_order > 0 AS is_communicating,
        sum(computing) OVER in_order > 0 AS is_computing
    FROM change
    WINDOW in_order AS (
        PARTITION BY trace_id, device ORDER BY at_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)

SELECT
    stretch.run_id,
    trace_id,
    rank,
    device,
    sum(time_ns)::BIGINT AS communication_ns,
    coalesce(sum(time_ns) FILTER (NOT is_computing), 0)::BIGINT AS exposed_ns,
    exposed_ns / communication_ns AS exposed_share
FROM stretch
INNER JOIN staging.trace AS trace USING (trace_id)
WHERE is_communicating
GROUP BY stretch.run_id, trace_id, rank, device
HAVING sum(time_ns) > 0
ORDER BY stretch.run_id, trace_id, device;
