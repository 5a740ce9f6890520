-- What the records of GPU work contradict: each other, the launches, or that there are any.
-- One row per trace with GPU work.
-- Key: trace_id.
CREATE VIEW graph.recorded_work (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of GPU ops, excluding those of kind `other`.
    all_count,
    -- [ns] Their time.
    time_ns,
    -- How many of them have no launch in the trace.
    lost_count,
    -- [ns] Their time.
    lost_ns,
    -- How many start before the previous one on their stream ends.
    overlap_count,
    -- [ns] Time for which these overlap.
    overlap_ns,
    -- How many are recorded to end after later work of their stream.
    overrun_count,
    -- [ns] The time by which they do.
    overrun_ns,
    -- GPUs whose clocks differ from the host's.
    clock_count,
    -- Number of GPUs.
    device_count,
    -- [ns] The largest such difference.
    clock_ns,
    -- How many start before their launch does.
    early_count,
    -- [ns] The longest time by which one does.
    early_ns,
    -- How many are recorded to take no time; 0 if times are whole microseconds, as short
    -- work then takes none.
    untimed_count
) AS
WITH
ordered AS (
    SELECT
        gpu_op.run_id,
        gpu_op.trace_id,
        gpu_op.call_id,
        gpu_op.end_ns - gpu_op.start_ns AS time_ns,
        overrun_ns,
        device,
        clock_ns,
        max(gpu_op.end_ns) OVER (
            PARTITION BY gpu_op.trace_id, device, stream
            ORDER BY gpu_op.start_ns, gpu_op.end_ns, gpu_op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until_ns,
        -- The first on a stream overlaps nothing: `least` would take its own end for NULL.
        least(gpu_op.end_ns, coalesce(busy_until_ns, gpu_op.start_ns)) - gpu_op.start_ns
            AS overlap_ns,
        call.start_ns - gpu_op.start_ns AS early_ns
    FROM staging.gpu_op AS gpu_op
    LEFT JOIN staging.call AS call USING (call_id)
    WHERE gpu_op.kind <> 'other'
)

SELECT
    run_id,
    trace_id,
    count(*),
    sum(time_ns)::BIGINT,
    count(*) FILTER (call_id IS NULL),
    coalesce(sum(time_ns) FILTER (call_id IS NULL), 0)::BIGINT,
    count(*) FILTER (overlap_ns > 0),
    coalesce(sum(overlap_ns) FILTER (overlap_ns > 0), 0)::BIGINT,
    count(*) FILTER (overrun_ns > 0),
    sum(overrun_ns)::BIGINT,
    count(DISTINCT device) FILTER (clock_ns <> 0),
    count(DISTINCT device),
    max(abs(clock_ns)),
    count(*) FILTER (early_ns > 0),
    greatest(max(early_ns), 0),
    count(*) FILTER (time_ns = 0 AND overrun_ns = 0)
    * bool_or(time_ns % 1_000 <> 0)::INTEGER
FROM ordered
GROUP BY run_id, trace_id;
