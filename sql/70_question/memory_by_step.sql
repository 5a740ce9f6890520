-- How much memory does each step allocate, and does more remain after each? Memory that
-- grows at the end of every step is kept for good, or leaks.
-- One row per step and device whose allocations are recorded (`profile_memory=True`).
-- Key: step_id, device_type, device.
CREATE VIEW question.memory_by_step (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- `cpu`, `cuda`, `hip`, ..., as in `staging.memory_event`.
    device_type,
    -- Device; -1 for the CPU.
    device,
    -- [B] The maximum allocated during its mark.
    peak_bytes,
    -- [B] The maximum reserved during its mark; NULL if not recorded, or nothing happens.
    reserved_bytes,
    -- [B] Allocated when it starts.
    begin_bytes,
    -- [B] Allocated when it ends.
    end_bytes,
    -- [B] Growth during the step.
    kept_bytes,
    -- Blocks that it allocates.
    allocation_count
) AS
WITH
-- Each device, with what was allocated before its first event.
allocator AS (
    SELECT
        trace_id,
        device_type,
        device,
        min_by(allocated_bytes - changed_bytes, (at_ns, memory_event_id)) AS first_bytes
    FROM staging.memory_event
    GROUP BY trace_id, device_type, device
),

bound AS (
    SELECT step.trace_id, step_id, step, start_ns, end_ns, device_type, device, first_bytes
    FROM staging.step AS step
    INNER JOIN allocator ON step.trace_id = allocator.trace_id
),

-- Of several events at one time, the last.
total AS (
    SELECT
        trace_id,
        device_type,
        device,
        at_ns,
        max_by(allocated_bytes, memory_event_id) AS allocated_bytes
    FROM staging.memory_event
    GROUP BY trace_id, device_type, device, at_ns
),

within AS (
    SELECT
        step_id,
        event.device_type,
        event.device,
        max(allocated_bytes) AS peak_bytes,
        max(reserved_bytes) AS reserved_bytes,
        count(*) FILTER (changed_bytes > 0) AS allocation_count
    FROM staging.step AS step
    INNER JOIN staging.memory_event AS event
        ON
            step.trace_id = event.trace_id
            AND event.at_ns >= step.start_ns
            AND event.at_ns < step.end_ns
    GROUP BY step_id, event.device_type, event.device
)

SELECT
    bound.trace_id,
    rank,
    bound.step_id,
    bound.step,
    bound.device_type,
    bound.device,
    greatest(peak_bytes, coalesce(begun.allocated_bytes, first_bytes)),
    reserved_bytes,
    coalesce(begun.allocated_bytes, first_bytes) AS begin_bytes,
    coalesce(ended.allocated_bytes, first_bytes) AS end_bytes,
    end_bytes - begin_bytes,
    coalesce(allocation_count, 0)
FROM bound
INNER JOIN staging.trace AS trace ON bound.trace_id = trace.trace_id
LEFT JOIN within
    ON
        bound.step_id = within.step_id
        AND bound.device_type = within.device_type
        AND bound.device = within.device
ASOF LEFT JOIN total AS begun
    ON
        bound.trace_id = begun.trace_id
        AND bound.device_type = begun.device_type
        AND bound.device = begun.device
        AND bound.start_ns > begun.at_ns
ASOF LEFT JOIN total AS ended
    ON
        bound.trace_id = ended.trace_id
        AND bound.device_type = ended.device_type
        AND bound.device = ended.device
        AND bound.end_ns > ended.at_ns
ORDER BY bound.trace_id, bound.device_type, bound.device, bound.step, bound.step_id;
