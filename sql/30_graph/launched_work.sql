-- GPU work in launch order: the last work launched on a stream before a time. Of the parts
-- of a graph on a stream, the last counts; work without a launch in the trace was launched
-- before it, in order. A call that starts before a launch of another thread has returned
-- does not count on its work, unless that has started. Streams are in order: what was
-- launched later than work behind it is never the last.
-- One row per GPU op that is ever the last on its stream.
-- Key: gpu_op_id.
CREATE VIEW graph.launched_work (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- Position on the stream, as in `graph.stream_position`.
    position,
    -- [ns] The last nanosecond of its launch, or before its start if that is earlier; before
    -- all times of the trace if it has none.
    launched_ns,
    -- [ns] End.
    end_ns
) AS
SELECT
    gpu_op_id,
    run_id,
    trace_id,
    device,
    stream,
    position,
    CASE
        WHEN launch_start_ns IS NULL THEN position - 1_000_000_000_000_000_000
        ELSE greatest(launch_start_ns, least(launch_end_ns, start_ns) - 1)
    END AS last_ns,
    end_ns
FROM graph.stream_position
QUALIFY coalesce(
    last_ns < min(last_ns) OVER (
        PARTITION BY trace_id, device, stream ORDER BY position
        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ),
    true
);
