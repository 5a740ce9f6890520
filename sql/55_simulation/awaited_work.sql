-- GPU work after which segments start: what a host thread or a stream waits for, and the
-- last work of the previous segment on the stream.
-- One row per variant, segment, kind and GPU op.
-- Key: variant_id, target_lane, target_segment, kind, gpu_op_id.
CREATE VIEW simulation.awaited_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Lane of the segment that starts after it.
    target_lane,
    -- Segment of that lane.
    target_segment,
    -- `return` (the host waits), `stream_wait`, or `stream` (stream order).
    kind,
    -- The GPU op.
    gpu_op_id,
    -- [ns] From its end to the start of the segment, at least.
    delay_ns
) AS
WITH
removed AS (
    SELECT variant_id, call_id, gpu_op_id
    FROM prediction.removed_mark
    INNER JOIN prediction.variant USING (scenario)
),

returned AS (
    SELECT
        host.variant_id,
        thread_id,
        segment + 1 AS segment,
        call_id,
        awaited.gpu_op_id,
        delay_ns
    FROM simulation.host_offset AS host
    INNER JOIN prediction.host_time USING (variant_id, thread_id, position)
    INNER JOIN overhead.timeline USING (thread_id, position)
    INNER JOIN graph.host_awaited AS awaited USING (call_id)
    ANTI JOIN removed
        ON
            host.variant_id = removed.variant_id
            AND awaited.call_id = removed.call_id
            AND awaited.gpu_op_id = removed.gpu_op_id
    WHERE waits AND awaited_gpu_op_id IS NOT NULL
),

-- Calls that wait for a device, and its streams with overlapped work.
device_wait AS (
    SELECT DISTINCT
        returned.variant_id, returned.thread_id, segment, returned.call_id, delay_ns, call.trace_id,
        call.start_ns, moved.device, to_stream
    FROM returned
    INNER JOIN staging.call AS call ON returned.call_id = call.call_id
    INNER JOIN graph.stream_position AS work ON returned.gpu_op_id = work.gpu_op_id
    INNER JOIN prediction.moved_work AS moved
        ON
            returned.variant_id = moved.variant_id
            AND call.trace_id = moved.trace_id
            AND work.device = moved.device
    WHERE call.target = 'device' AND is_overlapped
),

-- For removed work, its replacement, which may be awaited anyway. Overlapped work is
-- awaited by its own call, and by calls that wait for its device.
kept AS (
    SELECT variant_id, thread_id, segment, call_id, gpu_op_id, delay_ns
    FROM returned
    ANTI JOIN prediction.removed_place USING (variant_id, gpu_op_id)
    UNION
    SELECT variant_id, thread_id, segment, call_id, kept_gpu_op_id, delay_ns
    FROM returned
    INNER JOIN prediction.stand_in USING (variant_id, gpu_op_id)
    UNION
    SELECT variant_id, thread_id, segment, returned.call_id, gpu_op_id, delay_ns
    FROM returned
    INNER JOIN prediction.moved_work USING (variant_id, gpu_op_id)
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    WHERE is_overlapped AND returned.call_id = work.call_id
    UNION
    SELECT call.variant_id, thread_id, segment, call_id, last.gpu_op_id, delay_ns
    FROM device_wait AS call
    ASOF INNER JOIN prediction.moved_work AS last
        ON
            call.variant_id = last.variant_id
            AND call.trace_id = last.trace_id
            AND call.device = last.device
            AND call.to_stream = last.to_stream
            AND call.start_ns > last.launch_start_ns
),

-- Also what is inserted after the awaited work, except for the call that launched it.
awaited AS (
    FROM kept
    UNION ALL
    SELECT kept.variant_id, thread_id, segment, call_id, inserted.gpu_op_id, delay_ns
    FROM kept
    INNER JOIN prediction.inserted_work AS inserted
        ON
            kept.variant_id = inserted.variant_id
            AND kept.gpu_op_id = beside_gpu_op_id
            AND call_id IS DISTINCT FROM beside_call_id
    WHERE is_after
),

stream_wait AS (
    SELECT
        variant_id, gpu_op_id, awaited.awaited_gpu_op_id, delay_ns + kept_ns AS delay_ns
    FROM prediction.gpu_time AS gpu
    INNER JOIN prediction.variant_wait AS awaited USING (variant_id, gpu_op_id)
    ANTI JOIN prediction.removed_place AS removed
        ON
            gpu.variant_id = removed.variant_id
            AND awaited.awaited_gpu_op_id = removed.gpu_op_id
    UNION ALL
    SELECT variant_id, gpu_op_id, awaited_gpu_op_id, delay_ns
    FROM prediction.added_wait
)

SELECT variant_id, thread_id, segment, 'return', gpu_op_id, delay_ns
FROM awaited
UNION ALL
SELECT
    wait.variant_id, work.lane, work.segment, 'stream_wait', wait.awaited_gpu_op_id, delay_ns
FROM stream_wait AS wait
INNER JOIN simulation.gpu_offset AS work
    ON wait.variant_id = work.variant_id AND wait.gpu_op_id = work.gpu_op_id
INNER JOIN simulation.gpu_offset AS cause
    ON wait.variant_id = cause.variant_id AND wait.awaited_gpu_op_id = cause.gpu_op_id
-- A stream does not wait for itself.
WHERE work.lane <> cause.lane
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
