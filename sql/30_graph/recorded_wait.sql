-- Calls that wait for a stream or an event, or make a stream wait for one, if the profiler
-- recorded which one: the stream that they wait for, and the last work on it at that time.
-- One row per recorded call.
-- Key: call_id.
CREATE TABLE graph.recorded_wait (
    -- The call.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `stream`, `event` (the host waits) or `stream_wait` (a stream waits).
    target,
    -- Device of the waiting stream.
    device,
    -- That stream.
    stream,
    -- [ns] Start of the call.
    start_ns,
    -- Device of the stream that it waits for.
    awaited_device,
    -- That stream.
    awaited_stream,
    -- [ns] When the event was recorded; for a stream, when the call started.
    marked_ns,
    -- The last work on that stream then; NULL if it has none in the trace.
    gpu_op_id,
    -- [ns] When that was launched; -1 if there is none.
    launched_ns,
    -- The GPU work that a stream's wait holds up: the first that was launched on it after the
    -- call; NULL if there is none, and for waits of the host.
    held_gpu_op_id
) AS
WITH
-- A stream is identified by its number: one on another device if its own has none with that
-- number.
awaited AS (
    SELECT
        call.call_id,
        recorded.run_id,
        recorded.trace_id,
        recorded.target,
        recorded.device AS own_device,
        recorded.stream,
        call.start_ns,
        stream.device,
        stream.stream AS awaited_stream,
        coalesce(record_call.start_ns, call.start_ns) AS marked_ns
    FROM staging.device_wait AS recorded
    INNER JOIN staging.call AS call
        ON
            recorded.trace_id = call.trace_id
            AND recorded.correlation = call.correlation
    LEFT JOIN staging.call AS record_call
        ON
            recorded.trace_id = record_call.trace_id
            AND recorded.event_record_correlation = record_call.correlation
    INNER JOIN staging.stream AS stream
        ON
            recorded.trace_id = stream.trace_id
            AND recorded.awaited_stream = stream.stream
    WHERE
        recorded.target <> 'device'
        AND (recorded.target <> 'stream_wait' OR record_call.call_id IS NOT NULL)
    QUALIFY row_number() OVER (
        PARTITION BY call.call_id
        ORDER BY stream.device <> recorded.device, stream.device, device_wait_id
    ) = 1
),

launched AS (
    SELECT * FROM graph.stream_position WHERE call_id IS NOT NULL
),

-- The launch that comes next on the waiting stream.
next_launch AS (
    SELECT awaited.call_id, launched.call_id AS launch_call_id, launched.device, launched.stream
    FROM awaited
    ASOF INNER JOIN launched
        ON
            awaited.trace_id = launched.trace_id
            AND awaited.own_device = launched.device
            AND awaited.stream = launched.stream
            AND awaited.start_ns <= launched.launch_start_ns
    WHERE target = 'stream_wait'
),

-- It may put several on the stream, as that of a graph: the first one waits.
held AS (
    SELECT
        next_launch.call_id, arg_min(work.gpu_op_id, work.position) AS held_gpu_op_id
    FROM next_launch
    INNER JOIN launched AS work
        ON
            launch_call_id = work.call_id
            AND next_launch.device = work.device
            AND next_launch.stream = work.stream
    GROUP BY next_launch.call_id
)

SELECT
    awaited.call_id,
    awaited.run_id,
    awaited.trace_id,
    target,
    own_device,
    awaited.stream,
    awaited.start_ns,
    awaited.device,
    awaited_stream,
    marked_ns,
    work.gpu_op_id,
    coalesce(work.launched_ns, -1),
    held_gpu_op_id
FROM awaited
LEFT JOIN held ON awaited.call_id = held.call_id
ASOF LEFT JOIN graph.launched_work AS work
    ON
        awaited.trace_id = work.trace_id
        AND awaited.device = work.device
        AND awaited_stream = work.stream
        AND awaited.marked_ns > work.launched_ns;
