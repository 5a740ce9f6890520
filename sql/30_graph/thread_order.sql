-- Which of two threads wakes the other if they work for each other: the main one, otherwise
-- the one that started first.
-- One row per thread that did anything.
-- Key: thread_id.
CREATE VIEW graph.thread_order (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Its ordinal among the trace's threads, from 1; the first wakes the others.
    ordinal
) AS
SELECT
    event.run_id,
    trace_id,
    thread_id,
    row_number() OVER (
        PARTITION BY trace_id ORDER BY role <> 'main', min(event.start_ns), thread_id
    )
FROM graph.top_level_event AS event
INNER JOIN staging.thread USING (trace_id, thread_id)
GROUP BY event.run_id, trace_id, thread_id, role;
