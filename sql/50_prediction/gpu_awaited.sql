-- GPU work of other streams that GPU work waits for, and how long after it work usually
-- starts.
-- One row per piece of GPU work that waits and piece that it waits for.
-- Key: kernel_id, awaited_kernel_id.
CREATE VIEW prediction.gpu_awaited (
    -- The GPU work that waits.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work that it waits for.
    awaited_kernel_id,
    -- [ns] Delay after that.
    delay_ns
) AS
SELECT
    kernel_id,
    awaited.run_id,
    awaited.trace_id,
    awaited_kernel_id,
    coalesce(median_ns, 0)
FROM graph.gpu_awaited AS awaited
INNER JOIN graph.stream_position AS work USING (kernel_id)
LEFT JOIN prediction.delay AS delay
    ON
        awaited.trace_id = delay.trace_id
        AND awaited.reason = delay.cause
        AND work.kind = delay.kind;
