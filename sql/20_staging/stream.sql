-- Streams of devices that ran work.
-- One row per stream of a device of a trace.
-- Key: trace_id, device, stream.
CREATE VIEW staging.stream (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- GPU ops that ran on it.
    gpu_op_count,
    -- [ns] Sum of their durations; more than busy time if they overlap.
    gpu_op_time_ns,
    -- [ns] Time in which at least one of them was running.
    busy_ns,
    -- [ns] Start of the first.
    first_start_ns,
    -- [ns] End of the last.
    last_end_ns
) AS
WITH
covered AS (
    SELECT
        *,
        staging.uncovered_ns(start_ns, end_ns, trace_id, device, stream) AS uncovered_ns
    FROM staging.gpu_op
    WHERE kind <> 'other'
)

SELECT
    run_id,
    trace_id,
    device,
    stream,
    count(*),
    sum(end_ns - start_ns)::BIGINT,
    sum(uncovered_ns)::BIGINT,
    min(start_ns),
    max(end_ns)
FROM covered
GROUP BY run_id, trace_id, device, stream;
