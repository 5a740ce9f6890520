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
passed AS MATERIALIZED (
    FROM graph.passed_call
),

walk AS (
    SELECT call_id, call_id AS marked_by, 0 AS streams
    FROM graph.recorded_wait
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
    CASE call.target WHEN 'stream_wait' THEN call.device END,
    call.stream,
    call.start_ns,
    marked.gpu_op_id,
    min(walk.streams) > 0
FROM walk
INNER JOIN graph.recorded_wait AS call ON walk.call_id = call.call_id
INNER JOIN graph.recorded_wait AS marked ON walk.marked_by = marked.call_id
WHERE marked.gpu_op_id IS NOT NULL
GROUP BY ALL;
