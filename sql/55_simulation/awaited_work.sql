-- GPU work after which segments begin: what a host thread or a stream waits for, and the
-- last of the segment before on the stream.
-- One row per variant, segment, kind and GPU op.
-- Key: variant_id, target_lane, target_segment, kind, gpu_op_id.
CREATE VIEW simulation.awaited_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Lane of the segment that begins after it.
    target_lane,
    -- Segment of that lane.
    target_segment,
    -- `return` (the host waits), `stream_wait`, or `stream` (stream order).
    kind,
    -- The GPU op.
    gpu_op_id,
    -- [ns] From its end to the begin of the segment, at least.
    delay_ns
) AS
SELECT
    host.variant_id, thread_id, segment + 1, 'return', awaited.gpu_op_id, delay_ns
FROM simulation.host_offset AS host
INNER JOIN prediction.host_time USING (variant_id, thread_id, position)
INNER JOIN overhead.timeline USING (thread_id, position)
INNER JOIN graph.host_awaited AS awaited USING (call_id)
LEFT JOIN prediction.removed_wait AS no_stream_wait
    ON host.variant_id = no_stream_wait.variant_id AND no_stream_wait.kind = 'stream'
WHERE waits AND awaited_gpu_op_id IS NOT NULL
    -- A stream that waits for nothing has nothing to pass on.
    AND (NOT is_passed OR no_stream_wait.kind IS NULL)
UNION ALL
SELECT variant_id, lane, segment, 'stream_wait', awaited.awaited_gpu_op_id,
    delay_ns + kept_ns
FROM simulation.gpu_offset
INNER JOIN prediction.gpu_time AS gpu USING (variant_id, gpu_op_id)
INNER JOIN prediction.gpu_awaited AS awaited USING (gpu_op_id)
WHERE gpu.awaited_gpu_op_id IS NOT NULL
UNION ALL
SELECT
    following.variant_id,
    following.lane,
    following.segment,
    'stream',
    previous.gpu_op_id,
    following.stream_delay_ns
FROM simulation.gpu_offset AS following
INNER JOIN simulation.gpu_offset AS previous
    ON
        following.variant_id = previous.variant_id
        AND following.lane = previous.lane
        AND following.segment = previous.segment + 1
        AND previous.is_last
WHERE following.is_first;
