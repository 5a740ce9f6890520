-- What GPU work may have had to wait for without delay, if the profiler did not record it:
-- before the work's launch, its thread told some stream to wait for an event. The stream may
-- be any on which the thread launches later, and the event of the last work launched on
-- another stream, if that was over when the next launch's work started. After several such
-- calls, also what waited for other work (`graph.stream_wait`).
-- One row per such pair of GPU ops.
-- Key: gpu_op_id, awaited_gpu_op_id.
CREATE VIEW graph.possible_stream_wait (
    -- The GPU work that may have waited.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- What it may have waited for.
    awaited_gpu_op_id
) AS
WITH
told AS (
    SELECT call.trace_id, thread_id, call.start_ns
    FROM staging.call AS call
    ANTI JOIN staging.device_wait AS recorded
        ON call.trace_id = recorded.trace_id AND call.correlation = recorded.correlation
    WHERE call.target = 'stream_wait'
),

-- The next launch on each stream; of several calls before one launch, the last.
waiting AS (
    SELECT
        told.trace_id, work.gpu_op_id, work.device, work.stream, work.start_ns,
        max(told.start_ns) AS told_ns, count(*) AS told_count
    FROM told
    INNER JOIN staging.stream AS stream USING (trace_id)
    ASOF INNER JOIN graph.stream_position AS work
        ON
            told.thread_id = work.launch_thread_id
            AND stream.trace_id = work.trace_id
            AND stream.device = work.device
            AND stream.stream = work.stream
            AND told.start_ns <= work.launch_start_ns
    GROUP BY told.trace_id, work.gpu_op_id, work.device, work.stream, work.start_ns
)

SELECT waiting.gpu_op_id, waiting.trace_id, other.gpu_op_id
FROM waiting
LEFT JOIN graph.stream_wait AS known ON waiting.gpu_op_id = known.gpu_op_id
INNER JOIN staging.stream AS stream
    ON
        waiting.trace_id = stream.trace_id
        AND (waiting.device <> stream.device OR waiting.stream <> stream.stream)
ASOF INNER JOIN graph.launched_work AS other
    ON
        waiting.trace_id = other.trace_id
        AND stream.device = other.device
        AND stream.stream = other.stream
        AND told_ns > other.launched_ns
WHERE
    other.end_ns <= waiting.start_ns
    AND (known.gpu_op_id IS NULL OR told_count > 1 AND other.gpu_op_id <> awaited_gpu_op_id);
