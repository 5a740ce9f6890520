-- What spans of host time need from other threads at their end, whether they had to wait for it
-- or not (`graph.ready_wait`).
-- One row per span and other thread.
-- Key: thread_id, position, awaited_thread_id.
CREATE TABLE prediction.thread_need (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- The other thread.
    awaited_thread_id,
    -- Span of that thread whose end it needs.
    awaited_position,
    -- [ns] Minimum time between the two ends.
    lag_ns,
    -- [ns] When that was over, as measured.
    due_ns,
    -- [ns] Usual duration of such spans that had not to wait, if this one had to; it may be
    -- longer than the span.
    usual_ns
) AS
SELECT
    need.run_id,
    need.trace_id,
    need.thread_id,
    waiting.position,
    working.thread_id AS awaited_thread_id,
    working.position AS awaited_position,
    lag_ns,
    ready_ns + lag_ns AS due_ns,
    CASE
        WHEN is_bound AND waiting.type = 'T1'
            THEN (
                median(waiting.end_ns - waiting.start_ns)
                    FILTER (NOT is_bound AND waiting.type = 'T1') OVER of_pair
            )::BIGINT
    END AS usual_ns
FROM graph.ready_wait AS need
INNER JOIN overhead.timeline AS waiting
    ON need.thread_id = waiting.thread_id AND need.resume_ns = waiting.end_ns
INNER JOIN overhead.timeline AS working
    ON need.worker_thread_id = working.thread_id AND need.ready_ns = working.end_ns
WHERE waiting.type NOT LIKE 'wait_%' OR waiting.type = 'wait_data'
WINDOW of_pair AS (PARTITION BY need.thread_id, need.worker_thread_id);
