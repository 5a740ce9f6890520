-- The measured critical path of each step (of its period; without steps, of the trace), by
-- what could be done about its time.
-- One row per path and lever.
-- Key: trace_id, path_id, lever.
CREATE VIEW critical_path.path_lever (
    -- The run.
    run_id,
    -- The trace in which the path ends.
    trace_id,
    -- The path, as in `critical_path.measured_path`.
    path_id,
    -- The step; NULL for a trace.
    step_id,
    -- What the time is, as in `question.lever`.
    lever,
    -- [ns] Time on the path.
    time_ns,
    -- [ns] The part of this time in which a device of the trace was busy.
    busy_ns
) AS
-- With the busy time of devices until an interval starts, and until it ends.
SELECT
    interval.run_id,
    interval.trace_id,
    path_id,
    step_id,
    critical_path.lever(kind) AS lever,
    sum(interval.end_ns - interval.start_ns)::BIGINT,
    sum(
        coalesce(until.busy_ns - greatest(until.busy_until_ns - interval.end_ns, 0), 0)
        - coalesce(before.busy_ns - greatest(before.busy_until_ns - interval.start_ns, 0), 0)
    )::BIGINT
FROM critical_path.measured_interval AS interval
ASOF LEFT JOIN critical_path.busy_time AS before
    ON interval.trace_id = before.trace_id AND interval.start_ns >= before.start_ns
ASOF LEFT JOIN critical_path.busy_time AS until
    ON interval.trace_id = until.trace_id AND interval.end_ns >= until.start_ns
WHERE critical_path.bounds_period(scope, interval.trace_id)
GROUP BY interval.run_id, interval.trace_id, path_id, step_id, lever;
