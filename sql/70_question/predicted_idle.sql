-- Why would each device be idle in each step, as predicted? Beside what was measured.
-- One row per scenario, rung, step, device and kind of time.
-- Key: scenario, rung, step_id, device, kind.
CREATE VIEW question.predicted_idle (
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- Device.
    device,
    -- Kind of time, as in `critical_path.idle`.
    kind,
    -- [ns] Time of it in the step as measured.
    measured_ns,
    -- [ns] Time of it in the step as predicted.
    predicted_ns
) AS
WITH
summed AS (
    SELECT variant_id, step_id, device, kind, sum(end_ns - start_ns)::BIGINT AS time_ns
    FROM critical_path.idle
    GROUP BY ALL
),

-- Kinds that occur in either.
known AS (
    SELECT variant_id, scenario, rung, step_id, device, kind
    FROM prediction.variant
    CROSS JOIN (SELECT step_id, device, kind FROM summed WHERE variant_id = 0)
    WHERE is_simulated
    UNION
    SELECT variant_id, scenario, rung, step_id, device, kind
    FROM summed
    INNER JOIN prediction.variant USING (variant_id)
)

SELECT
    scenario,
    rung,
    trace_id,
    known.step_id,
    step,
    known.device,
    known.kind,
    coalesce(measured.time_ns, 0) AS measured_ns,
    coalesce(predicted.time_ns, 0) AS predicted_ns
FROM known
INNER JOIN staging.step AS step ON known.step_id = step.step_id
LEFT JOIN summed AS measured
    ON
        measured.variant_id = 0
        AND known.step_id = measured.step_id
        AND known.device = measured.device
        AND known.kind = measured.kind
LEFT JOIN summed AS predicted
    ON
        known.variant_id = predicted.variant_id
        AND known.step_id = predicted.step_id
        AND known.device = predicted.device
        AND known.kind = predicted.kind
ORDER BY known.variant_id, known.step_id, known.device, predicted_ns DESC, known.kind;
