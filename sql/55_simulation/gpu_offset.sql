-- GPU work of each variant divided into segments: runs of work on one stream that one host
-- segment launched and that wait for no other stream; a collective of several ranks in the
-- run is a segment of its own. Within a segment the end of work is max(P + after_stream_ns,
-- H + after_host_ns), where P is the time from which the segment's stream is free and H the
-- start of the host segment: the closed form of end = max(end of the previous work + delay,
-- launch + delay) + duration.
-- One row per variant and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE TABLE simulation.gpu_offset (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The stream as a lane: minus the first work on it.
    lane,
    -- Segment of the lane, from 0.
    segment,
    -- Whether it is the first of its segment.
    is_first,
    -- Whether it is the last of its segment.
    is_last,
    -- Host thread of the launch; 0 if the launch is not in the trace.
    host_lane,
    -- Segment of the host thread that contains the launch.
    host_segment,
    -- [ns] Delay after the end of the previous work on its stream.
    stream_delay_ns,
    -- [ns] End, from the time at which the segment's stream is free.
    after_stream_ns,
    -- [ns] End, from the start of the host segment.
    after_host_ns,
    -- [ns] Duration.
    predicted_ns
) AS
WITH
-- Work in lane order: the windows below take it in this order. Work without a launch in the
-- trace is given: it starts at its measured time.
ordered AS (
    SELECT
        gpu.variant_id,
        gpu.run_id,
        gpu.trace_id,
        gpu.gpu_op_id,
        coalesce(edited.lane, placement.lane) AS lane,
        coalesce(edited.position, placement.position) AS position,
        collective.node_id IS NOT NULL AS meets,
        gpu.awaited_gpu_op_id IS NOT NULL OR added.gpu_op_id IS NOT NULL AS waits,
        coalesce(host.thread_id, 0) AS host_lane,
        coalesce(host.segment, 0) AS host_segment,
        coalesce(
            host.offset_ns - coalesce(launch_back_ns, 0) + launch_delay_ns,
            edited.start_ns,
            placement.start_ns
        ) AS ready_ns,
        stream_delay_ns,
        gpu.predicted_ns
    FROM prediction.gpu_time AS gpu
    LEFT JOIN simulation.gpu_placement AS placement ON gpu.gpu_op_id = placement.gpu_op_id
    LEFT JOIN simulation.edited_placement AS edited
        ON gpu.variant_id = edited.variant_id AND gpu.gpu_op_id = edited.gpu_op_id
    LEFT JOIN (SELECT DISTINCT variant_id, gpu_op_id FROM prediction.added_wait) AS added
        ON gpu.variant_id = added.variant_id AND gpu.gpu_op_id = added.gpu_op_id
    LEFT JOIN graph.collective AS collective ON gpu.gpu_op_id = collective.node_id
    LEFT JOIN simulation.host_offset AS host
        ON
            gpu.variant_id = host.variant_id
            AND coalesce(edited.launch_thread_id, placement.launch_thread_id) = host.thread_id
            AND coalesce(edited.launch_position, placement.launch_position) = host.position
    WHERE gpu.trace_id IN (SELECT trace_id FROM staging.computing)
    ORDER BY gpu.variant_id, lane, position
),

broken AS (
    SELECT
        *,
        coalesce(lane <> lag(lane) OVER () OR variant_id <> lag(variant_id) OVER (), true)
        OR waits
        OR meets
        OR lag(meets) OVER ()
        OR host_lane <> lag(host_lane) OVER ()
        OR host_segment <> lag(host_segment) OVER () AS is_first
    FROM ordered
),

-- Over all work so far: the number of segment starts, and the end of the last work if all
-- of it had run back to back.
summed AS (
    SELECT
        *,
        count_if(is_first) OVER so_far AS number,
        coalesce(lead(is_first) OVER (), true) AS is_last,
        (
            sum(predicted_ns + CASE WHEN is_first THEN 0 ELSE stream_delay_ns END)
            OVER so_far
        )::BIGINT AS total_ns
    FROM broken
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

-- How much later work ends because the host launched it late, or earlier work in its
-- segment: the maximum so far, where a segment counts for more than any time.
delayed AS (
    SELECT
        *,
        number::HUGEINT * 10_000_000_000_000_000_000 AS weight,
        (max(weight + ready_ns + predicted_ns - total_ns) OVER so_far - weight)::BIGINT
        AS late_ns
    FROM summed
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

segment AS (
    SELECT
        number,
        row_number() OVER (PARTITION BY variant_id, lane ORDER BY number) - 1 AS segment,
        total_ns - predicted_ns AS begin_ns
    FROM summed
    WHERE is_first
)

SELECT
    variant_id,
    run_id,
    trace_id,
    gpu_op_id,
    lane,
    segment,
    is_first,
    is_last,
    host_lane,
    host_segment,
    stream_delay_ns,
    total_ns - begin_ns AS after_stream_ns,
    total_ns + late_ns AS after_host_ns,
    predicted_ns
FROM delayed
INNER JOIN segment USING (number);
