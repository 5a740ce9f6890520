-- How well is each step's time predicted?
-- One row per rung and step.
-- Key: scenario, rung, step_id.
CREATE VIEW question.prediction_error (
    -- The scenario.
    scenario,
    -- `replay`, `statistics` or `full`.
    rung,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Measured time.
    measured_ns,
    -- [ns] Predicted time.
    predicted_ns,
    -- [1] Predicted over measured, less 1.
    error_share,
    -- [ns] Measured delay without a cause, which the prediction leaves out.
    unexplained_ns
) AS
SELECT
    scenario,
    rung,
    trace_id,
    step_id,
    step,
    measured_ns,
    predicted_ns,
    error_share,
    unexplained_ns
FROM critical_path.step_time
ORDER BY scenario, list_position(['replay', 'statistics', 'full'], rung), step_id;
