-- How much of each step is every device idle? A trace without steps counts as a whole.
-- One row per step, or trace without steps, and device that ran work in the trace.
-- Key: trace_id, step_id, device.
CREATE VIEW question.idle_share (
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
    -- [ns] Time of the step, or of the trace, in which it was busy.
    busy_ns,
    -- [1] Idle share of the step, or of the trace.
    idle_share
) AS
WITH
within_step AS (
    SELECT
        step.trace_id,
        step_id,
        step,
        device,
        step.end_ns - step.start_ns AS step_ns,
        greatest(work.start_ns, step.start_ns) AS start_ns,
        least(work.end_ns, step.end_ns) AS end_ns
    FROM staging.step
    INNER JOIN staging.gpu_op AS work
        ON
            step.trace_id = work.trace_id
            AND step.start_ns < work.end_ns
            AND step.end_ns > work.start_ns
    WHERE kind <> 'other'
),

covered AS (
    SELECT
        *,
        staging.uncovered_ns(start_ns, end_ns, step_id, device, NULL) AS uncovered_ns
    FROM within_step
),

busy AS (
    SELECT step_id, device, sum(uncovered_ns) AS busy_ns
    FROM covered
    GROUP BY step_id, device
)

SELECT
    step.trace_id,
    rank,
    step.step_id,
    step,
    device.device,
    coalesce(busy.busy_ns, 0)::BIGINT AS busy_ns,
    1 - coalesce(busy.busy_ns, 0) / nullif(step.end_ns - step.start_ns, 0)
FROM staging.step
INNER JOIN staging.trace AS trace ON step.trace_id = trace.trace_id
INNER JOIN staging.device ON step.trace_id = device.trace_id
LEFT JOIN busy ON step.step_id = busy.step_id AND device.device = busy.device
WHERE gpu_op_count > 0
UNION ALL
SELECT
    trace_id,
    rank,
    NULL,
    NULL,
    device,
    coalesce(sum(time_ns) FILTER (is_busy), 0)::BIGINT,
    1 - coalesce(sum(time_share) FILTER (is_busy), 0)
FROM question.device_time
WHERE trace_id NOT IN (SELECT trace_id FROM staging.step)
GROUP BY trace_id, rank, device
ORDER BY trace_id, step_id, device;
