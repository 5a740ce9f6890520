-- What does a scenario do to each step, compared with the baseline of the same method?
-- One row per scenario, method and whole step (`staging.whole_step`); empty unless scenarios are requested (`tracedb
-- predict --scenario`).
-- Key: scenario, method, step_id.
CREATE VIEW question.scenario_effect (
    -- The scenario.
    scenario,
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
    -- [ns] Predicted period without the scenario's edits, as in `critical_path.step_time`.
    baseline_ns,
    -- [ns] Predicted period with them.
    predicted_ns,
    -- [1] With edits divided by without, minus 1.
    change_share,
    -- [ns] Predicted host time without them.
    baseline_host_ns,
    -- [ns] Predicted host time with them.
    predicted_host_ns,
    -- [ns] Predicted GPU end without them, from the start of the mark; NULL without GPU
    -- work.
    baseline_gpu_end_ns,
    -- [ns] Predicted GPU end with them.
    predicted_gpu_end_ns
) AS
SELECT
    variant.scenario,
    variant.method,
    edited.trace_id,
    rank,
    step_id,
    step.step,
    baseline.end_ns - baseline.start_ns AS baseline_ns,
    edited.end_ns - edited.start_ns AS predicted_ns,
    predicted_ns / nullif(baseline_ns, 0) - 1,
    baseline.host_end_ns - baseline.host_start_ns,
    edited.host_end_ns - edited.host_start_ns,
    baseline.gpu_end_ns - baseline.host_start_ns,
    edited.gpu_end_ns - edited.host_start_ns
FROM critical_path.step_period AS edited
INNER JOIN prediction.variant AS variant USING (variant_id)
INNER JOIN prediction.variant AS base
    ON base.scenario = 'baseline' AND variant.method = base.method
INNER JOIN critical_path.step_period AS baseline USING (step_id)
INNER JOIN staging.step AS step USING (step_id)
SEMI JOIN staging.whole_step USING (step_id)
INNER JOIN staging.trace AS trace ON edited.trace_id = trace.trace_id
WHERE variant.scenario <> 'baseline' AND baseline.variant_id = base.variant_id
ORDER BY edited.variant_id, step_id;
