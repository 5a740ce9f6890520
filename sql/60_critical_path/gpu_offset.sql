-- GPU work of each variant cut into segments: runs of work of one stream that one host
-- segment launched and that waits for no other stream; a collective of several ranks in the
-- run is a segment of its own. Within a segment the end of work
-- is max(P + after_stream_ns, H + after_host_ns), where P is the time from which the
-- segment's stream is free and H the begin of the host segment: the closed form of
-- end = max(end of the work before + delay, launch + delay) + duration.
-- One row per variant and piece of GPU work.
-- Key: variant_id, kernel_id.
CREATE TABLE critical_path.gpu_offset (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work.
    kernel_id,
    -- The stream as a lane: minus the first work on it.
    lane,
    -- Segment of the lane, from 0.
    segment,
    -- Whether it is the first of its segment.
    is_first,
    -- Whether it is the last of its segment.
    is_last,
    -- Host thread of the launch; 0 where the launch is not in the trace.
    host_lane,
    -- Segment of the host thread that the launch lies in.
    host_segment,
    -- [ns] Delay after the end of the work before it on its stream.
    stream_delay_ns,
    -- [ns] End, from the time at which the segment's stream is free.
    after_stream_ns,
    -- [ns] End, from the begin of the host segment.
    after_host_ns,
    -- [ns] Duration.
    predicted_ns
) AS
WITH
-- The piece of host time in which the launch begins.
launched AS (
    SELECT
        work.kernel_id,
        work.trace_id,
        work.position,
        -first_value(work.kernel_id) OVER (
            PARTITION BY work.trace_id, device, stream ORDER BY work.position
        ) AS lane,
        work.launch_thread_id,
        timeline.position AS piece_position,
        work.start_ns - coalesce(origin_ns, work.start_ns) AS given_start_ns
    FROM graph.stream_position AS work
    ASOF LEFT JOIN overhead.timeline
        ON
            work.launch_thread_id = timeline.thread_id
            AND work.launch_start_ns >= timeline.start_ns
    LEFT JOIN critical_path.origin AS origin ON work.trace_id = origin.trace_id
),

-- Work without a launch in the trace is given: it starts when it was measured to start.
placed AS (
    SELECT
        gpu.*,
        launched.position,
        lane,
        collective.kernel_id IS NOT NULL AS meets,
        coalesce(host.thread_id, 0) AS host_lane,
        coalesce(host.segment, 0) AS host_segment,
        coalesce(host.offset_ns + gpu.launch_delay_ns, given_start_ns) AS ready_ns
    FROM prediction.gpu_time AS gpu
    INNER JOIN launched USING (trace_id, kernel_id)
    LEFT JOIN graph.collective AS collective ON gpu.kernel_id = collective.kernel_id
    LEFT JOIN critical_path.host_offset AS host
        ON
            launched.launch_thread_id = host.thread_id
            AND launched.piece_position = host.position
            AND gpu.variant_id = host.variant_id
),

broken AS (
    SELECT
        *,
        coalesce(
            awaited_kernel_id IS NOT NULL
            OR meets
            OR lag(meets) OVER stream
            OR host_lane <> lag(host_lane) OVER stream
            OR host_segment <> lag(host_segment) OVER stream,
            true
        ) AS is_first
    FROM placed
    WINDOW stream AS (PARTITION BY variant_id, lane ORDER BY position)
),

numbered AS (
    SELECT
        *,
        sum(is_first::INTEGER) OVER (PARTITION BY variant_id, lane ORDER BY position) - 1
        AS segment
    FROM broken
),

summed AS (
    SELECT
        *,
        sum(
            predicted_ns + CASE WHEN is_first THEN 0 ELSE stream_delay_ns END
        ) OVER (PARTITION BY variant_id, lane, segment ORDER BY position) AS after_stream_ns
    FROM numbered
)

SELECT
    variant_id,
    run_id,
    trace_id,
    kernel_id,
    lane,
    segment::BIGINT AS segment,
    is_first,
    lead(kernel_id) OVER in_segment IS NULL AS is_last,
    host_lane,
    host_segment,
    stream_delay_ns,
    after_stream_ns::BIGINT AS after_stream_ns,
    (
        after_stream_ns
        + max(ready_ns - (after_stream_ns - predicted_ns)) OVER in_segment
    )::BIGINT AS after_host_ns,
    predicted_ns
FROM summed
WINDOW in_segment AS (PARTITION BY variant_id, lane, segment ORDER BY position);
