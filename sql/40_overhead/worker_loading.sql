-- How long steps wait for data from worker processes, which are not in a trace.
-- One row per run with steps.
-- Key: run_id.
CREATE VIEW overhead.worker_loading (
    -- The run.
    run_id,
    -- [ns] Mean time that a step waits for such data.
    loading_ns,
    -- [ns] Mean time of a step.
    step_ns
) AS
SELECT run_id, avg(loading_ns)::BIGINT, avg(step_ns)::BIGINT
FROM (
    SELECT
        any_value(step.run_id) AS run_id,
        any_value(step.end_ns - step.start_ns) AS step_ns,
        coalesce(
            sum(loading.end_ns - loading.start_ns)
                FILTER (contains(range.name, '_MultiProcessing')),
            0
        ) AS loading_ns
    FROM staging.step AS step
    LEFT JOIN staging.data_loading AS loading
        ON
            step.trace_id = loading.trace_id
            AND loading.start_ns >= step.start_ns
            AND loading.start_ns < step.end_ns
    LEFT JOIN staging.annotation AS range USING (annotation_id)
    GROUP BY step.step_id
)
GROUP BY run_id;
