-- What recording may have cost the host: each op and call, and each call of a Python function,
-- at its price (`overhead.profiler_cost`).
-- One row per trace with ops.
-- Key: trace_id.
CREATE VIEW overhead.recording_cost (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Events: ops, user ranges, calls, and calls of Python functions.
    event_count,
    -- [ns] Their cost.
    time_ns
) AS
WITH
event AS (
    SELECT trace_id, false AS is_python FROM staging.op
    UNION ALL
    SELECT trace_id, false FROM staging.call
    UNION ALL
    SELECT trace_id, true FROM staging.slice WHERE cat = 'python_function'
)

SELECT
    run_id,
    trace_id,
    count(*),
    sum(CASE WHEN is_python THEN python_call_ns ELSE event_ns END)::BIGINT
FROM event
INNER JOIN overhead.profiler_cost USING (trace_id)
GROUP BY run_id, trace_id;
