-- How long is each device active in each step, measured and predicted?
-- One row per scenario, method, step and device that ran work in the trace.
-- Key: scenario, method, step_id, device.
CREATE VIEW question.gpu_active (
    -- The scenario; `baseline` edits nothing.
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
    -- [ns] Time of the step in which it ran something, as measured.
    measured_ns,
    -- [ns] Time of the step in which it runs something, as predicted.
    predicted_ns,
    -- [1] Predicted over measured, less 1; NULL where a scenario edits something.
    error_share,
    -- [1] Share of the step in which it ran nothing, as measured.
    measured_idle_share,
    -- [1] Share of the step in which it runs nothing, as predicted.
    predicted_idle_share
) AS
WITH
active AS (
    SELECT
        step.variant_id,
        step.trace_id,
        step.step_id,
        device.device,
        any_value(step.end_ns - step.start_ns) AS step_ns,
        step_ns - coalesce(sum(idle.end_ns - idle.start_ns), 0)::BIGINT AS active_ns
    FROM critical_path.step_outcome AS step
    INNER JOIN staging.device AS device ON step.trace_id = device.trace_id
    LEFT JOIN critical_path.idle AS idle
        ON
            step.variant_id = idle.variant_id
            AND step.step_id = idle.step_id
            AND device.device = idle.device
    WHERE gpu_op_count > 0
    GROUP BY step.variant_id, step.trace_id, step.step_id, device.device
)

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
FROM active AS predicted
INNER JOIN active AS measured
    ON predicted.step_id = measured.step_id AND predicted.device = measured.device
INNER JOIN prediction.variant AS variant ON predicted.variant_id = variant.variant_id
INNER JOIN staging.step AS step ON predicted.step_id = step.step_id
INNER JOIN staging.trace AS trace ON predicted.trace_id = trace.trace_id
WHERE measured.variant_id = 0 AND is_simulated
ORDER BY variant.variant_id, step.step_id, predicted.device;
