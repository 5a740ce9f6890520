-- Recorded waits of streams for events: the first work launched on the waiting stream after
-- the call waits for what the event marked.
-- One row per GPU op and other GPU op that it waited for.
-- Key: gpu_op_id, awaited_gpu_op_id.
CREATE VIEW graph.recorded_stream_wait (
    -- The GPU work that waited.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU work that it waited for.
    awaited_gpu_op_id
) AS
SELECT DISTINCT work.gpu_op_id, work.run_id, work.trace_id, awaited.gpu_op_id
FROM graph.recorded_mark AS mark
INNER JOIN graph.recorded_wait AS wait USING (call_id)
INNER JOIN graph.stream_position AS work ON held_gpu_op_id = work.gpu_op_id
INNER JOIN graph.stream_position AS awaited ON mark.gpu_op_id = awaited.gpu_op_id
WHERE
    (work.device <> awaited.device OR work.stream <> awaited.stream)
    AND awaited.end_ns <= work.start_ns + 1_000
    AND awaited.start_ns < work.start_ns;
