-- All GPU work on other streams that GPU work waits for: what the profiler recorded, and
-- what explains its start (`graph.stream_wait`).
-- One row per GPU op that waits and GPU op that it waits for.
-- Key: gpu_op_id, awaited_gpu_op_id.
CREATE VIEW graph.gpu_awaited (
    -- The GPU work that waits.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU work that it waits for.
    awaited_gpu_op_id,
    -- `stream_wait` (for an event), or `occupancy` of the device by the awaited work.
    reason
) AS
SELECT gpu_op_id, run_id, trace_id, awaited_gpu_op_id, reason
FROM graph.stream_wait
UNION ALL
SELECT gpu_op_id, run_id, trace_id, awaited_gpu_op_id, 'stream_wait'
FROM graph.recorded_stream_wait
ANTI JOIN graph.stream_wait USING (gpu_op_id, awaited_gpu_op_id);
