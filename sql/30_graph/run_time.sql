-- The offset between times of a trace and times from the start of its run. If ranks are
-- compared (`graph.clock`), the run's clock is that of its first rank; otherwise the
-- traces' own time bases count, unless a trace would then start only after all others could
-- have ended: such traces each start with their run.
-- One row per trace in which something took time, except tables of operations.
-- Key: trace_id.
CREATE VIEW graph.run_time (
    -- The trace.
    trace_id,
    -- The run.
    run_id,
    -- [ns] Offset to add to times of the trace to get times from the start of its run.
    shift_ns,
    -- [ns] Start of the run, by the run's clock.
    run_start_ns
) AS
WITH
extent AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM graph.node
    WHERE kind <> 'operation'
    GROUP BY trace_id
),

clocked AS (
    SELECT
        trace_id,
        trace.run_id,
        extent.start_ns,
        extent.end_ns,
        coalesce(shift_ns, base_ns) AS clock_ns,
        min(extent.start_ns + clock_ns) OVER of_run AS run_start_ns,
        max(extent.start_ns + clock_ns) OVER of_run - run_start_ns
        <= max(extent.end_ns - extent.start_ns) OVER of_run AS is_together
    FROM extent
    INNER JOIN staging.trace AS trace USING (trace_id)
    LEFT JOIN graph.clock AS clock USING (trace_id)
    WINDOW of_run AS (PARTITION BY trace.run_id)
)

SELECT
    trace_id,
    run_id,
    CASE WHEN is_together THEN clock_ns - run_start_ns ELSE -start_ns END,
    run_start_ns
FROM clocked;
