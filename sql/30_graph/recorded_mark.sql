-- What calls that wait for a stream or an event wait for, where the profiler recorded which
-- one: the last work launched on that stream before the event was recorded, or the stream
-- waited for; and if the stream had itself been made to wait since that work, what it was
-- to wait for, through up to four streams.
-- One row per recorded call and piece of GPU work.
-- Key: launch_id, kernel_id.
CREATE TABLE graph.recorded_mark (
    -- The call that waits, or lets a stream wait.
    launch_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `stream`, `event` (the host waits) or `stream_wait` (a stream waits).
    target,
    -- Device of the stream that waits; NULL where the host does.
    device,
    -- That stream.
    stream,
    -- [ns] Begin of the call.
    start_ns,
    -- The GPU work.
    kernel_id,
    -- Whether it is waited for only since the stream had itself been made to wait for it.
    is_passed
) AS
WITH RECURSIVE
-- A stream is known by its number: that of another device where the own has none such.
awaited AS (
    SELECT
        call.launch_id,
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
    INNER JOIN staging.launch AS call
        ON
            recorded.trace_id = call.trace_id
            AND recorded.correlation = call.correlation
    LEFT JOIN staging.launch AS record_call
        ON
            recorded.trace_id = record_call.trace_id
            AND recorded.event_record_correlation = record_call.correlation
    INNER JOIN staging.stream AS stream
        ON
            recorded.trace_id = stream.trace_id
            AND recorded.awaited_stream = stream.stream
    WHERE
        recorded.target <> 'device'
        AND (recorded.target <> 'stream_wait' OR record_call.launch_id IS NOT NULL)
    QUALIFY row_number() OVER (
        PARTITION BY call.launch_id
        ORDER BY stream.device <> recorded.device, stream.device, device_wait_id
    ) = 1
),

-- The last work on the stream then: none, if it has none in the trace.
placed AS MATERIALIZED (
    SELECT awaited.*, work.kernel_id, coalesce(work.launched_ns, -1) AS launched_ns
    FROM awaited
    ASOF LEFT JOIN graph.launched_work AS work
        ON
            awaited.trace_id = work.trace_id
            AND awaited.device = work.device
            AND awaited.awaited_stream = work.stream
            AND awaited.marked_ns > work.launched_ns
),

-- Calls that let a stream wait, and what was launched there last before them.
holding AS MATERIALIZED (
    SELECT
        placed.launch_id,
        placed.trace_id,
        placed.own_device,
        placed.stream,
        placed.device,
        placed.awaited_stream,
        placed.start_ns,
        coalesce(work.launched_ns, -1) AS launched_ns
    FROM placed
    ASOF LEFT JOIN graph.launched_work AS work
        ON
            placed.trace_id = work.trace_id
            AND placed.own_device = work.device
            AND placed.stream = work.stream
            AND placed.start_ns > work.launched_ns
    WHERE
        target = 'stream_wait'
        AND (placed.own_device <> placed.device OR placed.stream <> placed.awaited_stream)
),

held_stream AS (
    SELECT DISTINCT trace_id, own_device, stream, launched_ns, device, awaited_stream
    FROM holding
),

-- Of each stream that the marked stream was to wait for since, the last call.
passed AS MATERIALIZED (
    SELECT beside.launch_id, holding.launch_id AS passed_launch_id
    FROM (
        SELECT
            placed.launch_id,
            placed.marked_ns,
            held_stream.*
        FROM placed
        INNER JOIN held_stream
            ON
                placed.trace_id = held_stream.trace_id
                AND placed.device = held_stream.own_device
                AND placed.awaited_stream = held_stream.stream
                AND placed.launched_ns = held_stream.launched_ns
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
    SELECT launch_id, launch_id AS marked_by, 0 AS streams
    FROM placed
    UNION
    SELECT walk.launch_id, passed_launch_id, streams + 1
    FROM walk
    INNER JOIN passed ON walk.marked_by = passed.launch_id
    WHERE streams < 4
)

SELECT
    call.launch_id,
    call.run_id,
    call.trace_id,
    call.target,
    CASE call.target WHEN 'stream_wait' THEN call.own_device END,
    call.stream,
    call.start_ns,
    marked.kernel_id,
    min(walk.streams) > 0
FROM walk
INNER JOIN placed AS call ON walk.launch_id = call.launch_id
INNER JOIN placed AS marked ON walk.marked_by = marked.launch_id
WHERE marked.kernel_id IS NOT NULL
GROUP BY ALL;
