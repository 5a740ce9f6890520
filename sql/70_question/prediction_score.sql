-- How well are steps predicted, in all, by GPU, run and trace?
-- Of a rung that takes host time from elsewhere, steps count of which less than half the
-- host time is taken as measured; of `naive` and `other_steps` those of traces with three
-- steps at least.
-- One row per rung and group of steps.
-- Key: rung, grouping, gpu, run_id, trace_id.
CREATE VIEW question.prediction_score (
    -- The rung, as in `prediction.rung`; `naive` is the median of the trace's other steps.
    rung,
    -- `all`, `gpu`, `run` or `trace`.
    grouping,
    -- Name of the GPU; NULL in `all`, and where the trace does not tell.
    gpu,
    -- The run; NULL in `all` and `gpu`.
    run_id,
    -- The trace; NULL but in `trace`.
    trace_id,
    -- Steps.
    step_count,
    -- [1] Geometric mean of the errors, each at least 0.01 %, without their signs.
    gmae_share,
    -- [1] Mean of the errors without their signs.
    mape_share,
    -- [1] 90th percentile of the errors without their signs.
    p90_share,
    -- [1] Largest of the errors without their signs.
    worst_share,
    -- [1] Mean of the errors with their signs.
    bias_share,
    -- [1] Mean part of the host time that is taken as measured.
    as_measured_share
) AS
WITH
error AS (
    SELECT
        *,
        count(DISTINCT step_id) OVER (PARTITION BY trace_id) > 2 AS has_others
    FROM question.prediction_error
    INNER JOIN prediction.rung USING (rung)
),

step AS (
    SELECT rung, position, trace_id, error_share, as_measured_share
    FROM error
    WHERE
        error_share IS NOT NULL
        AND (host_from IS NULL OR NOT is_simulated OR as_measured_share < 0.5)
        AND (rung <> 'other_steps' OR has_others)
    UNION ALL
    SELECT DISTINCT ON (step_id) 'naive', 0, trace_id, naive_error_share, 0
    FROM error
    WHERE naive_error_share IS NOT NULL AND has_others
)

SELECT
    rung,
    CASE
        WHEN grouping(step.trace_id) = 0 THEN 'trace'
        WHEN grouping(trace.run_id) = 0 THEN 'run'
        WHEN grouping(gpu) = 0 THEN 'gpu'
        ELSE 'all'
    END AS grouping,
    gpu,
    trace.run_id,
    step.trace_id,
    count(*),
    -- Sums of floating point depend on the order.
    round(exp(avg(ln(greatest(abs(error_share), 0.0001)))), 6),
    round(avg(abs(error_share)), 6),
    round(quantile_cont(abs(error_share), 0.9), 6),
    round(max(abs(error_share)), 6),
    round(avg(error_share), 6),
    round(avg(as_measured_share), 6)
FROM step
INNER JOIN staging.trace AS trace ON step.trace_id = trace.trace_id
LEFT JOIN staging.trace_gpu ON step.trace_id = trace_gpu.trace_id
GROUP BY GROUPING SETS (
    (rung, position),
    (rung, position, gpu),
    (rung, position, gpu, trace.run_id),
    (rung, position, gpu, trace.run_id, step.trace_id)
)
ORDER BY
    list_position(['all', 'gpu', 'run', 'trace'], grouping), gpu, run_id, trace_id, position;
