-- Which of two threads wakes the other, where they work for each other: the main one, else
-- the one that began first.
-- One row per thread that did anything.
-- Key: thread_id.
CREATE VIEW graph.thread_order (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Its place among the trace's threads, from 1; the first wakes the others.
    place
) AS
SELECT
    activity.run_id,
    trace_id,
    thread_id,
    row_number() OVER (
        PARTITION BY trace_id ORDER BY role <> 'main', min(activity.start_ns), thread_id
    )
FROM graph.activity AS activity
INNER JOIN staging.thread USING (trace_id, thread_id)
GROUP BY activity.run_id, trace_id, thread_id, role;
