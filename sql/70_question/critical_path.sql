-- What bounds each step?
-- One row per step and kind of time on its critical path.
-- Key: step_id, kind.
CREATE VIEW question.critical_path (
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- Intervals of that kind.
    interval_count,
    -- [ns] Their time.
    time_ns,
    -- [1] Their share of the step.
    time_share
) AS
SELECT
    interval.trace_id,
    interval.step_id,
    step,
    kind,
    count(*),
    sum(interval.end_ns - interval.start_ns)::BIGINT AS time_ns,
    time_ns / any_value(nullif(step.end_ns - step.start_ns, 0))
FROM critical_path.interval
INNER JOIN staging.step ON interval.step_id = step.step_id
WHERE scope = 'step'
GROUP BY ALL
ORDER BY interval.step_id, time_ns DESC, kind;
