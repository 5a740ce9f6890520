-- GPU work on other streams that GPU work waits for, and the typical start delay after it.
-- One row per GPU op that waits and GPU op that it waits for.
-- Key: gpu_op_id, awaited_gpu_op_id.
CREATE VIEW prediction.gpu_awaited (
    -- The GPU work that waits.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU work that it waits for.
    awaited_gpu_op_id,
    -- [ns] Delay after that.
    delay_ns
) AS
SELECT
    gpu_op_id,
    awaited.run_id,
    awaited.trace_id,
    awaited_gpu_op_id,
    coalesce(median_ns, 0)
FROM graph.gpu_awaited AS awaited
INNER JOIN graph.stream_position AS work USING (gpu_op_id)
LEFT JOIN prediction.delay AS delay
    ON
        awaited.trace_id = delay.trace_id
        AND awaited.reason = delay.cause
        AND work.kind = delay.kind;
