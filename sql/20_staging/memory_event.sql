-- Allocations and frees of PyTorch's allocators, with `profile_memory=True`: the bytes of
-- blocks, and the totals allocated and reserved afterwards.
-- One row per allocation, and per freed block.
-- Key: memory_event_id.
CREATE VIEW staging.memory_event (
    -- The event.
    memory_event_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread; NULL if nothing else was recorded on it.
    thread_id,
    -- `cpu`, `cuda`, `hip`, `xpu`, `mps`, `mtia`, or the number of another type.
    device_type,
    -- Device; -1 for the CPU.
    device,
    -- [ns] Time.
    at_ns,
    -- [B] Size of the block; negative if it is freed.
    changed_bytes,
    -- Address of the block; NULL if not recorded.
    address,
    -- [B] Allocated on the device afterwards. If not recorded, the total that the trace
    -- shows: blocks allocated before it and not freed in it are excluded.
    allocated_bytes,
    -- [B] Reserved by the allocator afterwards; NULL if not recorded.
    reserved_bytes,
    -- Whether the allocator's totals are recorded.
    has_totals
) AS
WITH
event AS (
    SELECT
        event_id,
        trace_id,
        pid,
        tid,
        ts_ns,
        args ->> [
            '$."Device Type"', '$."Device Id"', '$.Bytes', '$.Addr', '$."Total Allocated"',
            '$."Total Reserved"'
        ] AS argument
    FROM raw.event
    WHERE name = '[memory]' AND ts_ns IS NOT NULL
),

read AS (
    SELECT
        event.*,
        CASE argument[1]
            WHEN '0' THEN 'cpu'
            WHEN '1' THEN 'cuda'
            WHEN '6' THEN 'hip'
            WHEN '12' THEN 'xpu'
            WHEN '13' THEN 'mps'
            WHEN '19' THEN 'mtia'
            ELSE argument[1]
        END AS device_type,
        try_cast(argument[2] AS BIGINT) AS device,
        try_cast(argument[3] AS BIGINT) AS changed_bytes,
        try_cast(argument[4] AS UBIGINT) AS address,
        try_cast(argument[5] AS BIGINT) AS total_bytes,
        try_cast(argument[6] AS BIGINT) AS reserved_bytes
    FROM event
    WHERE
        abs(try_cast(argument[3] AS BIGINT)) BETWEEN 1 AND 1_125_899_906_842_624
),

summed AS (
    SELECT
        *,
        sum(changed_bytes) OVER (
            PARTITION BY trace_id, device_type, device ORDER BY ts_ns, event_id
            ROWS UNBOUNDED PRECEDING
        ) AS running_bytes
    FROM read
)

SELECT
    event_id,
    thread.run_id,
    trace_id,
    thread_id,
    device_type,
    device,
    ts_ns,
    changed_bytes,
    address,
    coalesce(
        total_bytes,
        running_bytes - least(min(running_bytes) OVER on_device, 0)
    )::BIGINT,
    CASE WHEN reserved_bytes > 0 THEN reserved_bytes END,
    total_bytes IS NOT NULL
FROM summed
LEFT JOIN staging.thread AS thread USING (trace_id, pid, tid)
WINDOW on_device AS (PARTITION BY trace_id, device_type, device);
