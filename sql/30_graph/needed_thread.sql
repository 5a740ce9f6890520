-- Threads of steps, and those that they wait for, directly or through others.
-- One row per thread, known and assumed.
-- Key: thread_id, is_assumed.
CREATE VIEW graph.needed_thread (
    -- The thread.
    thread_id,
    -- Whether a wait that is assumed (`graph.ready_wait`) leads to it.
    is_assumed
) AS
WITH RECURSIVE
link AS (
    SELECT DISTINCT thread_id, worker_thread_id, false AS is_assumed FROM graph.thread_wait
    UNION
    SELECT DISTINCT thread_id, worker_thread_id, is_assumed FROM graph.ready_wait
),

needed AS (
    SELECT DISTINCT thread_id, false AS is_assumed FROM staging.step
    UNION
    SELECT worker_thread_id, needed.is_assumed OR link.is_assumed
    FROM needed
    INNER JOIN link USING (thread_id)
)

SELECT thread_id, is_assumed FROM needed;
