-- Placement of each GPU op: its stream as a lane, and the span of host time in which its
-- launch starts. The same for all variants.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE TABLE simulation.gpu_placement (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The stream as a lane: minus the first work on it.
    lane,
    -- Position on the stream, from 1.
    position,
    -- [ns] Measured start, from the start of the trace.
    start_ns,
    -- Host thread of the launch; NULL if the launch is not in the trace.
    launch_thread_id,
    -- Position of the span on that thread.
    launch_position
) AS
SELECT
    work.gpu_op_id,
    work.run_id,
    work.trace_id,
    -first_value(work.gpu_op_id) OVER (
        PARTITION BY work.trace_id, device, stream ORDER BY work.position
    ) AS lane,
    work.position,
    work.start_ns - coalesce(origin_ns, work.start_ns),
    span.thread_id,
    span.position
FROM graph.stream_position AS work
LEFT JOIN simulation.origin AS origin ON work.trace_id = origin.trace_id
ASOF LEFT JOIN overhead.timeline AS span
    ON
        work.launch_thread_id = span.thread_id
        AND work.launch_start_ns >= span.start_ns;
