-- The measured critical paths of all steps (of the period of each; without steps, of the
-- trace), by what could be done about their time.
-- One row per run and lever.
-- Key: run_id, lever.
CREATE VIEW critical_path.lever_time (
    -- The run.
    run_id,
    -- What the time is, as in `question.lever`.
    lever,
    -- [ns] Time on the critical paths.
    time_ns,
    -- [1] Its share of their time.
    time_share,
    -- Steps that have it on their path; for traces without steps, traces.
    path_count,
    -- [ns] The mean over all paths.
    mean_ns,
    -- [ns] The part of this time in which a device of the trace was busy.
    busy_ns
) AS
WITH
-- With the busy time of devices until its start, and until its end.
interval AS (
    SELECT
        interval.run_id,
        path_id,
        critical_path.lever(kind) AS lever,
        interval.end_ns - interval.start_ns AS time_ns,
        coalesce(before.busy_ns - greatest(before.busy_until_ns - interval.start_ns, 0), 0)
        AS busy_before_ns,
        coalesce(until.busy_ns - greatest(until.busy_until_ns - interval.end_ns, 0), 0)
        AS busy_until_ns
    FROM critical_path.measured_interval AS interval
    ASOF LEFT JOIN critical_path.busy_time AS before
        ON interval.trace_id = before.trace_id AND interval.start_ns >= before.start_ns
    ASOF LEFT JOIN critical_path.busy_time AS until
        ON interval.trace_id = until.trace_id AND interval.end_ns >= until.start_ns
    WHERE critical_path.bounds_period(scope, interval.trace_id)
),

paths AS (
    SELECT run_id, sum(time_ns) AS time_ns, count(DISTINCT path_id) AS path_count
    FROM interval
    GROUP BY run_id
)

SELECT
    run_id,
    lever,
    sum(interval.time_ns)::BIGINT AS time_ns,
    sum(interval.time_ns) / nullif(any_value(paths.time_ns), 0),
    count(DISTINCT path_id),
    round(sum(interval.time_ns) / any_value(paths.path_count))::BIGINT,
    sum(busy_until_ns - busy_before_ns)::BIGINT
FROM interval
INNER JOIN paths USING (run_id)
GROUP BY run_id, lever;
