-- Launches into a full queue: a CUDA stream holds about a thousand GPU ops, and a call that
-- launches more returns when one of them has ended.
-- One row per launch that found more than a thousand unfinished launches of its stream
-- ahead of it, one of which ended meanwhile.
-- Key: call_id.
CREATE VIEW graph.full_queue (
    -- The launch.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Start of the call.
    start_ns,
    -- [ns] End of the call.
    end_ns,
    -- The last GPU work of the stream that ended before the call did.
    gpu_op_id,
    -- [ns] End of that work.
    gpu_op_end_ns
) AS
WITH
-- The parts of a graph are launched as one.
begun AS (
    SELECT
        *,
        coalesce(call_id <> lag(call_id) OVER on_stream, true)::INTEGER AS is_next
    FROM graph.stream_position
    WINDOW on_stream AS (PARTITION BY trace_id, device, stream ORDER BY position)
),

numbered AS (
    SELECT
        *,
        sum(is_next) OVER (PARTITION BY trace_id, device, stream ORDER BY position)
        AS number
    FROM begun
),

-- What had not ended on the stream when the call started.
full_queue AS (
    SELECT
        call.call_id,
        call.run_id,
        call.trace_id,
        call.start_ns,
        call.end_ns,
        work.device,
        work.stream,
        past.number AS past_number
    FROM staging.call AS call
    INNER JOIN numbered AS work USING (call_id)
    ASOF INNER JOIN numbered AS past
        ON
            work.trace_id = past.trace_id
            AND work.device = past.device
            AND work.stream = past.stream
            AND call.start_ns >= past.end_ns
    WHERE work.number - past.number > 1_000
    QUALIFY row_number() OVER (PARTITION BY call.call_id ORDER BY work.position) = 1
)

SELECT
    call_id,
    full_queue.run_id,
    full_queue.trace_id,
    full_queue.start_ns,
    full_queue.end_ns,
    gpu_op_id,
    ended.end_ns
FROM full_queue
ASOF INNER JOIN (
    SELECT trace_id, device, stream, number, gpu_op_id, end_ns FROM numbered
) AS ended
    ON
        full_queue.trace_id = ended.trace_id
        AND full_queue.device = ended.device
        AND full_queue.stream = ended.stream
        AND full_queue.end_ns >= ended.end_ns
WHERE ended.number > past_number;
