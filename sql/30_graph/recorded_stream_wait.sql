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
)

SELECT waiting.gpu_op_id, waiting.run_id, waiting.trace_id, awaited.gpu_op_id
FROM graph.recorded_mark AS mark
ASOF INNER JOIN launched AS waiting
    ON
        mark.trace_id = waiting.trace_id
        AND mark.device = waiting.device
        AND mark.stream = waiting.stream
        AND mark.start_ns <= waiting.launch_start_ns
INNER JOIN graph.stream_position AS awaited ON mark.gpu_op_id = awaited.gpu_op_id
WHERE
    mark.target = 'stream_wait'
    AND (waiting.device <> awaited.device OR waiting.stream <> awaited.stream)
    AND awaited.end_ns <= waiting.start_ns + 1_000
    AND awaited.start_ns < waiting.start_ns
QUALIFY row_number() OVER (
    PARTITION BY waiting.gpu_op_id, awaited.device, awaited.stream
    ORDER BY awaited.position DESC
) = 1;
