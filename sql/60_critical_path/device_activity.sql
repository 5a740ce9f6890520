-- How long each device is busy in each step, measured and simulated: the step minus the
-- idle time.
-- One row per variant, step and device that ran work in the trace.
-- Key: variant_id, step_id, device.
CREATE VIEW critical_path.device_activity (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Device.
    device,
    -- [ns] Duration of the step's mark.
    step_ns,
    -- [ns] Busy time of the device in it.
    active_ns
) AS
SELECT
    step.variant_id,
    step.trace_id,
    step.step_id,
    device.device,
    any_value(step.end_ns - step.start_ns) AS step_ns,
    step_ns - coalesce(sum(idle.end_ns - idle.start_ns), 0)::BIGINT
FROM critical_path.step_outcome AS step
INNER JOIN staging.device AS device ON step.trace_id = device.trace_id
LEFT JOIN critical_path.idle AS idle
    ON
        step.variant_id = idle.variant_id
        AND idle.scope = 'step'
        AND step.step_id = idle.step_id
        AND device.device = idle.device
WHERE gpu_op_count > 0
GROUP BY step.variant_id, step.trace_id, step.step_id, device.device;
