-- GPU work after which segments begin: what a host thread or a stream waits for, and the
-- last of the segment before on the stream.
-- One row per variant, segment and kind.
-- Key: variant_id, target_lane, target_segment, kind.
CREATE VIEW critical_path.awaited_work (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
    -- Lane of the segment that begins after it.
    target_lane,
    -- Segment of that lane.
    target_segment,
    -- `return` (the host waits), `stream_wait`, or `stream` (stream order).
    kind,
    -- The GPU work.
    kernel_id,
    -- [ns] From its end to the begin of the segment, at least.
    delay_ns
) AS
SELECT
    variant_id, thread_id, segment + 1, 'return', awaited_kernel_id, delay_ns
FROM critical_path.host_offset
INNER JOIN prediction.host_time USING (variant_id, thread_id, position)
WHERE waits AND awaited_kernel_id IS NOT NULL
UNION ALL
SELECT variant_id, lane, segment, 'stream_wait', awaited_kernel_id, wait_delay_ns
FROM critical_path.gpu_offset
INNER JOIN prediction.gpu_time USING (variant_id, kernel_id)
WHERE awaited_kernel_id IS NOT NULL
UNION ALL
SELECT
    following.variant_id,
    following.lane,
    following.segment,
    'stream',
    previous.kernel_id,
    following.stream_delay_ns
FROM critical_path.gpu_offset AS following
INNER JOIN critical_path.gpu_offset AS previous
    ON
        following.variant_id = previous.variant_id
        AND following.lane = previous.lane
        AND following.segment = previous.segment + 1
        AND previous.is_last
WHERE following.is_first;
