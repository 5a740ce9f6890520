-- How long is each device active in each step, measured and predicted?
-- One row per scenario, method, step and device that ran work in the trace.
-- Key: scenario, method, step_id, device.
CREATE VIEW question.gpu_active (
    -- The scenario; `baseline` has no edits.
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
    -- Device.
    device,
    -- [ns] Time of the step in which it was busy, as measured.
    measured_ns,
    -- [ns] Time of the step in which it is busy, as predicted.
    predicted_ns,
    -- [1] Predicted divided by measured, minus 1; NULL for scenarios with edits.
    error_share,
    -- [1] Idle share of the step, as measured.
    measured_idle_share,
    -- [1] Idle share of the step, as predicted.
    predicted_idle_share
) AS
SELECT
    scenario,
    method,
    trace.trace_id,
    rank,
    step.step_id,
    step.step,
    predicted.device,
    measured.active_ns AS measured_ns,
    predicted.active_ns AS predicted_ns,
    CASE scenario
        WHEN 'baseline' THEN predicted.active_ns / nullif(measured.active_ns, 0) - 1
    END,
    1 - measured.active_ns / nullif(measured.step_ns, 0),
    1 - predicted.active_ns / nullif(predicted.step_ns, 0)
FROM critical_path.device_activity AS predicted
INNER JOIN critical_path.device_activity AS measured
    ON predicted.step_id = measured.step_id AND predicted.device = measured.device
INNER JOIN prediction.variant AS variant ON predicted.variant_id = variant.variant_id
INNER JOIN staging.step AS step ON predicted.step_id = step.step_id
INNER JOIN staging.trace AS trace ON predicted.trace_id = trace.trace_id
WHERE measured.variant_id = 0 AND is_simulated
ORDER BY variant.variant_id, step.step_id, predicted.device;
