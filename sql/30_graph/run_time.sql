-- How times of a trace become times from the begin of its run. Where ranks are compared
-- (`graph.clock`) the run's clock is that of its first rank; otherwise the traces' own time
-- bases count, unless a trace would then begin only after all others could be over: such
-- traces each begin with their run.
-- One row per trace that something took time in; tables of operations are none.
-- Key: trace_id.
CREATE VIEW graph.run_time (
    -- The trace.
    trace_id,
    -- The run it is of.
    run_id,
    -- [ns] What to add to times of the trace for times from the begin of its run.
    shift_ns,
    -- [ns] Begin of the run, by the run's clock.
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
