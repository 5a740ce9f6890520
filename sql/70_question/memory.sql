-- How much memory is allocated at its peak, when, and how much reserved memory is unused?
-- Needs a trace with allocations (`profile_memory=True`).
-- One row per device of a trace.
-- Key: trace_id, device_type, device.
CREATE VIEW question.memory (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- `cpu`, `cuda`, `hip`, ..., as in `staging.memory_event`.
    device_type,
    -- Device; -1 for the CPU.
    device,
    -- [B] Allocated at the peak; without totals, what the trace shows, as in
    -- `staging.memory_event`.
    peak_bytes,
    -- Number of the step of the peak; NULL outside of steps.
    step,
    -- [ns] Time of the peak, from the start of the step; outside of steps, from the first
    -- event.
    offset_ns,
    -- [B] Reserved by the allocator at that time; NULL if not recorded.
    reserved_bytes,
    -- [B] The part of this that is not allocated: free blocks, fragments.
    unused_bytes,
    -- [1] Its share of the reserved memory.
    unused_share,
    -- [B] The maximum ever reserved.
    most_reserved_bytes,
    -- [B] Memory of the device, as recorded, or by its datasheet; NULL if unknown.
    capacity_bytes,
    -- [B] Allocated before the first event.
    begin_bytes,
    -- [B] Allocated after the last event.
    end_bytes,
    -- Blocks that were allocated.
    allocation_count,
    -- [B] Total ever allocated.
    turnover_bytes,
    -- Whether the allocator's totals are recorded.
    has_totals
) AS
WITH
summed AS (
    SELECT
        trace_id,
        device_type,
        device,
        arg_max(
            {at_ns: at_ns, allocated: allocated_bytes, reserved: reserved_bytes},
            (allocated_bytes, -at_ns, -memory_event_id)
        ) AS peak,
        min(at_ns) AS first_ns,
        max(reserved_bytes) AS most_reserved_bytes,
        arg_min(allocated_bytes - changed_bytes, (at_ns, memory_event_id)) AS begin_bytes,
        arg_max(allocated_bytes, (at_ns, memory_event_id)) AS end_bytes,
        count(*) FILTER (changed_bytes > 0) AS allocation_count,
        sum(changed_bytes) FILTER (changed_bytes > 0) AS turnover_bytes,
        bool_and(has_totals) AS has_totals
    FROM staging.memory_event
    GROUP BY trace_id, device_type, device
),

placed AS (
    SELECT *, peak.at_ns AS peak_ns
    FROM summed
)

SELECT
    trace.run_id,
    placed.trace_id,
    rank,
    device_type,
    placed.device,
    peak.allocated,
    CASE WHEN peak_ns < step.end_ns THEN step.step END AS step,
    CASE WHEN peak_ns < step.end_ns THEN peak_ns - step.start_ns ELSE peak_ns - first_ns END,
    peak.reserved,
    peak.reserved - peak.allocated,
    (peak.reserved - peak.allocated) / nullif(peak.reserved, 0),
    most_reserved_bytes,
    CASE WHEN device_type <> 'cpu'
        THEN coalesce(described.memory_bytes, capacity.memory_bytes)
    END,
    begin_bytes,
    end_bytes,
    allocation_count,
    coalesce(turnover_bytes, 0)::BIGINT,
    has_totals
FROM placed
INNER JOIN staging.trace AS trace ON placed.trace_id = trace.trace_id
LEFT JOIN (SELECT trace_id, device, hardware FROM prediction.kernel_device WHERE is_known) AS
known
    ON placed.trace_id = known.trace_id AND placed.device = known.device
LEFT JOIN prediction.memory_capacity AS capacity USING (hardware)
LEFT JOIN staging.device AS described
    ON placed.trace_id = described.trace_id AND placed.device = described.device
ASOF LEFT JOIN staging.step AS step
    ON placed.trace_id = step.trace_id AND peak_ns >= step.start_ns
ORDER BY trace.run_id, rank, placed.trace_id, peak.allocated DESC, device_type, placed.device;
