-- How well is each step's time predicted?
-- One row per method and whole step of the baseline; scenarios were not measured.
-- Key: method, step_id.
CREATE VIEW question.prediction_error (
    -- The method, as in `prediction.method`.
    method,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Measured period, as in `critical_path.step_time`.
    measured_ns,
    -- [ns] Predicted period.
    predicted_ns,
    -- [1] Predicted divided by measured, minus 1.
    error_share,
    -- [1] Share of its host time that is taken as measured.
    as_measured_share,
    -- [ns] Median of the trace's other steps: the guess from these alone.
    naive_ns,
    -- [1] That divided by measured, minus 1.
    naive_error_share,
    -- [ns] Measured delay without a cause, which the prediction excludes.
    unexplained_ns
) AS
WITH
naive AS (
    SELECT
        step_id,
        round(median(period.end_ns - period.start_ns) OVER (
            PARTITION BY thread_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
        ))::BIGINT AS naive_ns
    FROM critical_path.step_period AS period
    INNER JOIN staging.step AS step USING (step_id)
    SEMI JOIN staging.whole_step USING (step_id)
    WHERE variant_id = 0
)

SELECT
    method,
    trace_id,
    rank,
    step_id,
    step,
    measured_ns,
    predicted_ns,
    error_share,
    as_measured_share,
    naive_ns,
    naive_ns / nullif(measured_ns, 0) - 1,
    unexplained_ns
FROM critical_path.step_time
INNER JOIN staging.trace AS trace USING (trace_id)
LEFT JOIN naive USING (step_id)
INNER JOIN prediction.method USING (method)
WHERE scenario = 'baseline'
ORDER BY position, step_id;
