-- Why is each device idle in each step? By what kept the work that came next from coming
-- before: what its host thread did until the launch, or the delays after that.
-- One row per step, device and kind of time.
-- Key: step_id, device, kind.
CREATE VIEW question.idle_cause (
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
    -- Kind of time, as in `critical_path.idle`.
    kind,
    -- [ns] Time in which the device was idle for it.
    idle_ns,
    -- [1] Its share of the step.
    idle_share
) AS
SELECT
    idle.trace_id,
    rank,
    step.step_id,
    step,
    device,
    kind,
    sum(idle.end_ns - idle.start_ns)::BIGINT AS idle_ns,
    idle_ns / any_value(step.end_ns - step.start_ns)
FROM critical_path.idle
INNER JOIN staging.step AS step ON idle.step_id = step.step_id
INNER JOIN staging.trace AS trace ON idle.trace_id = trace.trace_id
WHERE variant_id = 0
GROUP BY ALL
ORDER BY step.step_id, device, idle_ns DESC, kind;
