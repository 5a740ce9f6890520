-- Why is each device idle in each step? By what delayed the next work: what its host thread
-- did until the launch, or the delays after that. By default as measured; requested methods
-- and scenarios are added (`tracedb ask --method`), with all kinds of time that were
-- measured. A trace without steps is measured as a whole.
-- One row per scenario, method, step (or trace without steps), device and kind of time.
-- Key: scenario, method, trace_id, step_id, device, kind.
CREATE VIEW question.idle_cause (
    -- The scenario; `baseline` has no edits.
    scenario,
    -- `measured`, or the method, as in `prediction.method`.
    method,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step; NULL for traces without steps.
    step_id,
    -- Number of the step; NULL for traces without steps.
    step,
    -- Device.
    device,
    -- Kind of time, as in `critical_path.idle`.
    kind,
    -- [ns] Idle time of the device of this kind.
    idle_ns,
    -- [1] Its share of the step's mark; without steps, of the trace.
    idle_share,
    -- [ns] Measured idle time of the device of this kind.
    measured_ns
) AS
WITH
summed AS (
    SELECT variant_id, step_id, device, kind, sum(end_ns - start_ns)::BIGINT AS idle_ns
    FROM critical_path.idle
    INNER JOIN prediction.variant USING (variant_id)
    WHERE is_asked AND scope = 'step'
    GROUP BY ALL
),

-- Kinds that occur in either.
known AS (
    SELECT variant_id, step_id, device, kind
    FROM critical_path.step_outcome
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN (SELECT step_id, device, kind FROM summed WHERE variant_id = 0) AS measured
        USING (step_id)
    WHERE is_asked
    UNION
    SELECT variant_id, step_id, device, kind
    FROM summed
),

answer AS (
    SELECT
        variant_id,
        scenario,
        method,
        step.trace_id,
        rank,
        step.step_id,
        step.step,
        known.device,
        known.kind,
        coalesce(own.idle_ns, 0) AS idle_ns,
        coalesce(own.idle_ns, 0) / nullif(outcome.end_ns - outcome.start_ns, 0),
        coalesce(measured.idle_ns, 0)
    FROM known
    INNER JOIN prediction.variant AS variant USING (variant_id)
    INNER JOIN critical_path.step_outcome AS outcome USING (variant_id, step_id)
    INNER JOIN staging.step AS step ON known.step_id = step.step_id
    INNER JOIN staging.trace AS trace ON step.trace_id = trace.trace_id
    LEFT JOIN summed AS own
        ON
            known.variant_id = own.variant_id
            AND known.step_id = own.step_id
            AND known.device = own.device
            AND known.kind = own.kind
    LEFT JOIN summed AS measured
        ON
            measured.variant_id = 0
            AND known.step_id = measured.step_id
            AND known.device = measured.device
            AND known.kind = measured.kind
    UNION ALL
    SELECT
        0, scenario, method, trace_id, rank, NULL, NULL, device, kind, time_ns, time_share, time_ns
    FROM question.device_time
    INNER JOIN prediction.variant ON variant_id = 0
    WHERE NOT is_busy AND trace_id NOT IN (SELECT trace_id FROM staging.step)
)

SELECT * EXCLUDE (variant_id)
FROM answer
ORDER BY variant_id, trace_id, step_id, device, idle_ns DESC, kind;
