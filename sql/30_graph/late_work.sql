-- GPU work that started later than its launch, its stream and recorded waits explain, by so
-- much that it must have waited for something else (`graph.shows_wait`); from 1 us on, if a
-- thread had told some stream to wait since the previous launch on the stream, and that was
-- not recorded.
-- One row per such GPU op.
-- Key: gpu_op_id.
CREATE TABLE graph.late_work (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- `kernel`, `memcpy` or `memset`.
    kind,
    -- [ns] Start.
    start_ns,
    -- [ns] End of its launch.
    launch_end_ns,
    -- [ns] Delay of its start that launch and stream do not explain.
    excess_ns,
    -- [ns] Typical start delay after work on other streams in the trace: the median for
    -- work that shows no wait; 0 without any.
    typical_wait_ns
) AS
WITH
-- Calls that make a stream wait for an event, per thread, if that is not recorded.
wait_call AS (
    SELECT thread_id, start_ns AS wait_call_ns
    FROM staging.call
    WHERE
        target = 'stream_wait'
        AND trace_id NOT IN (
            SELECT trace_id FROM staging.device_wait WHERE target = 'stream_wait'
        )
),

-- End of its recorded waits.
recorded_wait AS (
    SELECT waiting.gpu_op_id, max(awaited.end_ns) AS recorded_end_ns
    FROM graph.recorded_stream_wait AS waiting
    INNER JOIN graph.stream_position AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
    GROUP BY waiting.gpu_op_id
),

-- Delay of the start beyond launch and stream.
explained AS (
    SELECT
        work.*,
        lag(launch_start_ns) OVER (
            PARTITION BY work.trace_id, device, stream ORDER BY position
        ) AS previous_launch_start_ns,
        work.start_ns - greatest(after_launch_ns, after_stream_ns) AS excess_ns,
        recorded_end_ns
    FROM graph.stream_position AS work
    INNER JOIN graph.typical_start USING (gpu_op_id)
    LEFT JOIN recorded_wait USING (gpu_op_id)
),

-- A wait of this length shows from the time alone; a shorter one only after a call for it.
late AS (
    SELECT explained.*
    FROM explained
    ASOF LEFT JOIN wait_call
        ON
            explained.launch_thread_id = wait_call.thread_id
            AND explained.launch_start_ns >= wait_call.wait_call_ns
    WHERE
        call_id IS NOT NULL
        AND coalesce(graph.shows_wait(start_ns - recorded_end_ns), true)
        AND (
            graph.shows_wait(excess_ns)
            OR excess_ns > 1_000 AND wait_call_ns > coalesce(previous_launch_start_ns, 0)
        )
),

-- Typical start delay after work on other streams.
typical AS (
    SELECT trace_id, quantile_disc(delay_ns, 0.5) AS typical_ns
    FROM (
        SELECT late.trace_id, min(late.start_ns - ended.end_ns) AS delay_ns
        FROM late
        INNER JOIN staging.stream AS other
            ON
                late.trace_id = other.trace_id
                AND (late.device <> other.device OR late.stream <> other.stream)
        ASOF INNER JOIN graph.stream_position AS ended
            ON
                other.trace_id = ended.trace_id
                AND other.device = ended.device
                AND other.stream = ended.stream
                AND late.start_ns >= ended.end_ns
        GROUP BY late.trace_id, late.gpu_op_id
    )
    WHERE NOT graph.shows_wait(delay_ns)
    GROUP BY trace_id
)

SELECT
    gpu_op_id,
    run_id,
    trace_id,
    device,
    stream,
    kind,
    start_ns,
    launch_end_ns,
    excess_ns,
    coalesce(typical_ns, 0)
FROM late
LEFT JOIN typical USING (trace_id);
