-- How long do the steps of each run take? Over the steps of all its ranks.
-- Without steps it is empty.
-- One row per run.
-- Key: run.
CREATE VIEW fleet.period (
    -- The run.
    run,
    -- Traces with steps.
    trace_count,
    -- Steps of all of them.
    step_count,
    -- [ns] Median of their periods.
    p50_ns,
    -- [ns] 90th percentile.
    p90_ns,
    -- [ns] 99th percentile.
    p99_ns
) AS
SELECT
    run,
    count(DISTINCT step.trace_id),
    count(*),
    CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY period_ns)) AS BIGINT),
    CAST(round(percentile_cont(0.9) WITHIN GROUP (ORDER BY period_ns)) AS BIGINT),
    CAST(round(percentile_cont(0.99) WITHIN GROUP (ORDER BY period_ns)) AS BIGINT)
FROM fleet.step AS step
INNER JOIN fleet.trace AS trace ON step.trace_id = trace.trace_id
GROUP BY run
ORDER BY run;
