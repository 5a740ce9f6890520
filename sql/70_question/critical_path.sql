-- What bounds each step, each trace, and each step of a run?
-- One row per critical path and kind of time on it.
-- Key: scope, path_id, kind.
CREATE VIEW question.critical_path (
    -- `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The trace that it ends in.
    trace_id,
    -- The step at whose end it ends; NULL for a trace.
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
    path.trace_id,
    path.step_id,
    step,
    kind,
    count(*),
    sum(interval.end_ns - interval.start_ns)::BIGINT AS time_ns,
    time_ns / any_value(nullif(path.end_ns - path.start_ns, 0))
FROM critical_path.interval
INNER JOIN critical_path.path
    ON interval.scope = path.scope AND interval.path_id = path.path_id
GROUP BY ALL
ORDER BY path.scope, path.path_id, time_ns DESC, kind;
