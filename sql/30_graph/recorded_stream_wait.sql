-- Recorded waits of streams for events: the first work launched on the waiting stream after
-- the call waits for what the event marked, on each other stream for the last of it.
-- One row per GPU op and other stream that it waited for.
-- Key: gpu_op_id, awaited_gpu_op_id.
CREATE VIEW graph.recorded_stream_wait (
    -- The GPU work that waited.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU work that it waited for.
    awaited_gpu_op_id
) AS
WITH
launched AS (
    SELECT * FROM graph.stream_position WHERE call_id IS NOT NULL
),

-- The launch that comes next on the waiting stream.
found AS (
    SELECT mark.gpu_op_id AS awaited_gpu_op_id, launched.call_id, launched.device, launched.stream
    FROM graph.recorded_mark AS mark
    ASOF INNER JOIN launched
        ON
            mark.trace_id = launched.trace_id
            AND mark.device = launched.device
            AND mark.stream = launched.stream
            AND mark.start_ns <= launched.launch_start_ns
    WHERE mark.target = 'stream_wait'
),

-- One launch may put several on the stream, as that of a graph: the first one waits.
waiting AS (
    SELECT work.call_id, work.device, work.stream, min(work.position) AS position
    FROM launched AS work
    SEMI JOIN found USING (call_id)
    GROUP BY work.call_id, work.device, work.stream
)

SELECT work.gpu_op_id, work.run_id, work.trace_id, awaited.gpu_op_id
FROM found
INNER JOIN waiting USING (call_id, device, stream)
INNER JOIN graph.stream_position AS work USING (call_id, device, stream, position)
INNER JOIN graph.stream_position AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
WHERE
    (work.device <> awaited.device OR work.stream <> awaited.stream)
    AND awaited.end_ns <= work.start_ns + 1_000
    AND awaited.start_ns < work.start_ns
QUALIFY row_number() OVER (
    PARTITION BY work.gpu_op_id, awaited.device, awaited.stream
    ORDER BY awaited.position DESC
) = 1;
