-- How far are predicted times from measured ones? The kernels of an op form one problem; so
-- does each copy or memset. Excluded are collectives, whose kernels wait for other ranks,
-- and work that took no time.
-- One row per trace, family and model.
-- Key: trace_id, family, model.
-- Counts: staging.gpu_op.
CREATE VIEW question.kernel_error (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Family of GPU work.
    family,
    -- The predictor: `roofline`, or the name of the model.
    model,
    -- Whether other work of the trace, or of other databases, has calibrated the factors.
    is_calibrated,
    -- Problems.
    problem_count,
    -- [1] Share of them whose factor is learned from work of the same shape.
    recurring_share,
    -- [ns] Time that they took.
    measured_ns,
    -- [1] Share of the time of all predicted GPU work, excluding collectives.
    time_share,
    -- [1] Geometric mean of the absolute errors, each at least 0.01 %.
    gmae_share,
    -- [1] Mean of the absolute errors.
    mape_share,
    -- [1] 90th percentile of the absolute errors.
    p90_share,
    -- [1] Total predicted time divided by measured, minus 1.
    bias_share,
    -- [1] Share of them measured inside the band.
    inside_share,
    -- [1] Geometric mean of the errors without calibration by the trace.
    uncalibrated_gmae_share,
    -- [1] Total predicted time divided by measured, minus 1, without calibration by the
    -- trace.
    uncalibrated_bias_share
) AS
WITH
problem AS (
    SELECT
        gpu_op.run_id,
        gpu_op.trace_id,
        family,
        model,
        bool_or(is_calibrated) AS is_calibrated,
        bool_and(learnt_from = 'shape') AS is_recurring,
        sum(end_ns - start_ns) AS problem_ns,
        sum(predicted_ns) AS predicted_ns,
        sum(uncalibrated_ns) AS uncalibrated_ns,
        sum(predicted_ns) / problem_ns - 1 AS error,
        sum(uncalibrated_ns) / problem_ns - 1 AS uncalibrated_error,
        sum(low_ns) <= problem_ns AND problem_ns <= sum(high_ns) AS is_inside
    FROM staging.gpu_op AS gpu_op
    INNER JOIN prediction.kernel_time USING (gpu_op_id)
    WHERE family <> 'collective'
    GROUP BY
        gpu_op.run_id, gpu_op.trace_id, family, model,
        CASE kind WHEN 'kernel' THEN gpu_op.op_id END,
        CASE kind WHEN 'kernel' THEN NULL ELSE gpu_op_id END
    HAVING problem_ns > 0
)

SELECT
    problem.run_id,
    trace_id,
    rank,
    family,
    model,
    bool_or(is_calibrated),
    count(*),
    avg(is_recurring::BIGINT),
    sum(problem_ns)::BIGINT AS measured_ns,
    measured_ns / sum(measured_ns) OVER (PARTITION BY trace_id),
    prediction.gmae_share(error),
    -- Floating-point sums depend on the order.
    round(avg(abs(error)), 6),
    round(quantile_cont(abs(error), 0.9), 6),
    sum(predicted_ns) / measured_ns - 1,
    avg(is_inside::BIGINT),
    prediction.gmae_share(uncalibrated_error),
    sum(uncalibrated_ns) / measured_ns - 1
FROM problem
INNER JOIN staging.trace AS trace USING (trace_id)
GROUP BY problem.run_id, trace_id, rank, family, model
ORDER BY problem.run_id, trace_id, measured_ns DESC, family, model;
