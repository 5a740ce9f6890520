-- What does a scenario do to each step, against the baseline of the same rung?
-- One row per scenario, rung and step; a database at rest has no scenarios
-- (`tracedb predict --scenario`).
-- Key: scenario, rung, step_id.
CREATE VIEW question.scenario_effect (
    -- The scenario.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Predicted time without the scenario's edits.
    baseline_ns,
    -- [ns] Predicted time with them.
    predicted_ns,
    -- [1] With them over without, less 1.
    change_share
) AS
SELECT
    edited.scenario,
    rung,
    edited.trace_id,
    step_id,
    edited.step,
    baseline.predicted_ns,
    edited.predicted_ns,
    edited.predicted_ns / nullif(baseline.predicted_ns, 0) - 1
FROM critical_path.step_time AS edited
INNER JOIN critical_path.step_time AS baseline USING (rung, step_id)
INNER JOIN prediction.variant AS variant
    ON edited.scenario = variant.scenario AND rung = variant.rung
WHERE baseline.scenario = 'baseline' AND edited.scenario <> 'baseline'
ORDER BY variant_id, step_id;
