-- Waits that scenarios remove and that would last: what waited continues before what it waited
-- for is over. Waits for other threads and ranks are all included.
-- One row per variant and such wait.
-- Key: variant_id, kind, waiting_id, position.
CREATE VIEW simulation.passed_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `host`, `thread` or `rank`, as in `prediction.removed_wait`, or `stream`.
    kind,
    -- The waiting thread or GPU work.
    waiting_id,
    -- Position of the wait on the thread; 0 for GPU work.
    position
) AS
SELECT DISTINCT removed.variant_id, removed.kind, removed.waiting_id, removed.position
FROM prediction.removed_wait AS removed
INNER JOIN overhead.timeline AS span
    ON waiting_id = span.thread_id AND removed.position = span.position
INNER JOIN graph.host_awaited AS awaited USING (call_id)
INNER JOIN simulation.gpu_work_time AS work
    ON removed.variant_id = work.variant_id AND awaited.gpu_op_id = work.gpu_op_id
INNER JOIN simulation.host_span_time AS host
    ON
        removed.variant_id = host.variant_id
        AND span.thread_id = host.thread_id
        AND span.position = host.position
WHERE removed.kind = 'host' AND work.end_ns > host.end_ns
UNION ALL
SELECT DISTINCT variant_id, 'stream', removed.gpu_op_id, 0
FROM prediction.removed_stream_wait AS removed
INNER JOIN prediction.variant USING (scenario)
INNER JOIN simulation.gpu_work_time AS work USING (variant_id, gpu_op_id)
INNER JOIN simulation.gpu_work_time AS awaited USING (variant_id)
WHERE removed.awaited_gpu_op_id = awaited.gpu_op_id AND awaited.end_ns > work.start_ns
UNION ALL
SELECT variant_id, kind, waiting_id, position
FROM prediction.removed_wait
WHERE kind <> 'host';
