-- What bounds each step, each trace, and each step of a run?
-- One row per critical path, trace that it passes, and kind of time there.
-- Key: scope, path_id, trace_id, kind.
CREATE VIEW question.critical_path (
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The trace that the time lies in.
    trace_id,
    -- Its rank.
    rank,
    -- The step at whose end the path ends; NULL for a trace.
    step_id,
    -- Number of the step.
    step,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- Intervals of that kind.
    interval_count,
    -- [ns] Their time.
    time_ns,
    -- [1] Their share of the path.
    time_share
) AS
SELECT
    path.scope,
    path.path_id,
    interval.trace_id,
    rank,
    path.step_id,
    step,
    kind,
    count(*),
    sum(interval.end_ns - interval.start_ns)::BIGINT AS time_ns,
    time_ns / any_value(nullif(path.end_ns - path.start_ns, 0))
FROM critical_path.interval
INNER JOIN critical_path.path
    ON interval.scope = path.scope AND interval.path_id = path.path_id
INNER JOIN staging.trace ON interval.trace_id = staging.trace.trace_id
GROUP BY ALL
ORDER BY path.scope, path.path_id, time_ns DESC, interval.trace_id, kind;
