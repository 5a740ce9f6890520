-- What does a scenario do to each step, against the baseline of the same method?
-- One row per scenario, method and step; a database at rest has no scenarios
-- (`tracedb predict --scenario`).
-- Key: scenario, method, step_id.
CREATE VIEW question.scenario_effect (
    -- The scenario.
    scenario,
    -- The method, as in `prediction.method`.
    method,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Predicted period without the scenario's edits, as in `critical_path.step_time`.
    baseline_ns,
    -- [ns] Predicted period with them.
    predicted_ns,
    -- [1] With them over without, less 1.
    change_share,
    -- [ns] Predicted host time without them.
    baseline_host_ns,
    -- [ns] Predicted host time with them.
    predicted_host_ns,
    -- [ns] Predicted GPU end without them, from the begin of the mark; NULL without GPU work.
    baseline_gpu_end_ns,
    -- [ns] Predicted GPU end with them.
    predicted_gpu_end_ns
) AS
SELECT
    edited.scenario,
    method,
    edited.trace_id,
    step_id,
    edited.step,
    baseline.predicted_ns,
    edited.predicted_ns,
    edited.predicted_ns / nullif(baseline.predicted_ns, 0) - 1,
    baseline.predicted_host_ns,
    edited.predicted_host_ns,
    baseline.predicted_gpu_end_ns,
    edited.predicted_gpu_end_ns
FROM critical_path.step_time AS edited
INNER JOIN critical_path.step_time AS baseline USING (method, step_id)
INNER JOIN prediction.variant AS variant
    ON edited.scenario = variant.scenario AND method = variant.method
WHERE baseline.scenario = 'baseline' AND edited.scenario <> 'baseline'
ORDER BY variant_id, step_id;
