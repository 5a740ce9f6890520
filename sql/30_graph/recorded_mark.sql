-- What calls that wait for a stream or an event wait for, if the profiler recorded which
-- one: the last work launched on that stream before the event was recorded, or the stream
-- waited for; and if the stream had itself been made to wait since that work, what it was
-- to wait for, through up to four streams.
-- One row per recorded call and GPU op.
-- Key: call_id, gpu_op_id.
CREATE TABLE graph.recorded_mark (
    -- The call that waits, or makes a stream wait.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `stream`, `event` (the host waits) or `stream_wait` (a stream waits).
    target,
    -- Device of the waiting stream; NULL if the host waits.
    device,
    -- That stream.
    stream,
    -- [ns] Start of the call.
    start_ns,
    -- The GPU op.
    gpu_op_id,
    -- Whether it is awaited only because the stream had itself been made to wait for it.
    is_passed
) AS
WITH RECURSIVE
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

-- The last work on the stream at that time: none, if it has none in the trace.
located AS MATERIALIZED (
    SELECT awaited.*, work.gpu_op_id, coalesce(work.launched_ns, -1) AS launched_ns
    FROM awaited
    ASOF LEFT JOIN graph.launched_work AS work
        ON
            awaited.trace_id = work.trace_id
            AND awaited.device = work.device
            AND awaited.awaited_stream = work.stream
            AND awaited.marked_ns > work.launched_ns
),

-- Calls that make a stream wait, and what was last launched there before them.
holding AS MATERIALIZED (
    SELECT
        located.call_id,
        located.trace_id,
        located.own_device,
        located.stream,
        located.device,
        located.awaited_stream,
        located.start_ns,
        coalesce(work.launched_ns, -1) AS launched_ns
    FROM located
    ASOF LEFT JOIN graph.launched_work AS work
        ON
            located.trace_id = work.trace_id
            AND located.own_device = work.device
            AND located.stream = work.stream
            AND located.start_ns > work.launched_ns
    WHERE
        target = 'stream_wait'
        AND (located.own_device <> located.device OR located.stream <> located.awaited_stream)
),

held_stream AS (
    SELECT DISTINCT trace_id, own_device, stream, launched_ns, device, awaited_stream
    FROM holding
),

-- For each stream that the marked stream was to wait for since then, the last call.
passed AS MATERIALIZED (
    SELECT beside.call_id, holding.call_id AS passed_call_id
    FROM (
        SELECT
            located.call_id,
            located.marked_ns,
            held_stream.*
        FROM located
        INNER JOIN held_stream
            ON
                located.trace_id = held_stream.trace_id
                AND located.device = held_stream.own_device
                AND located.awaited_stream = held_stream.stream
                AND located.launched_ns = held_stream.launched_ns
    ) AS beside
    ASOF INNER JOIN holding
        ON
            beside.trace_id = holding.trace_id
            AND beside.own_device = holding.own_device
            AND beside.stream = holding.stream
            AND beside.launched_ns = holding.launched_ns
            AND beside.device = holding.device
            AND beside.awaited_stream = holding.awaited_stream
            AND beside.marked_ns > holding.start_ns
),

walk AS (
    SELECT call_id, call_id AS marked_by, 0 AS streams
    FROM located
    UNION
    SELECT walk.call_id, passed_call_id, streams + 1
    FROM walk
    INNER JOIN passed ON walk.marked_by = passed.call_id
    WHERE streams < 4
)

SELECT
    call.call_id,
    call.run_id,
    call.trace_id,
    call.target,
    CASE call.target WHEN 'stream_wait' THEN call.own_device END,
    call.stream,
    call.start_ns,
    marked.gpu_op_id,
    min(walk.streams) > 0
FROM walk
INNER JOIN located AS call ON walk.call_id = call.call_id
INNER JOIN located AS marked ON walk.marked_by = marked.call_id
WHERE marked.gpu_op_id IS NOT NULL
GROUP BY ALL;
