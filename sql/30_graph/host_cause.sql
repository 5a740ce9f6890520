-- Moments at which a host thread went on because something elsewhere was over: the end of
-- a call that blocked, the end of a wait for another thread, the waking of a worker.
-- One row per such moment.
-- Key: thread_id, resume_ns, cause.
CREATE TABLE graph.host_cause (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Thread that went on.
    thread_id,
    -- `return` (of a call that blocked for GPU work), `join` or `fork` (of a thread).
    cause,
    -- [ns] Moment at which it went on.
    resume_ns,
    -- [ns] The next such moment of the thread; what comes until then follows from this one.
    next_resume_ns,
    -- The call that blocked.
    launch_id,
    -- The GPU work that was over.
    cause_kernel_id,
    -- The thread that was done, or that woke it.
    cause_thread_id
) AS
WITH
moment AS (
    SELECT
        run_id, host_wait.trace_id, call.thread_id, 'return' AS cause,
        host_wait.end_ns AS resume_ns, launch_id, kernel_id AS cause_kernel_id,
        NULL::BIGINT AS cause_thread_id
    FROM graph.host_wait
    INNER JOIN (SELECT launch_id, thread_id FROM staging.launch) AS call USING (launch_id)
    WHERE is_blocked
    UNION ALL
    SELECT run_id, trace_id, thread_id, 'join', end_ns, NULL, NULL, worker_thread_id
    FROM graph.thread_wait
    UNION ALL
    SELECT run_id, trace_id, worker_thread_id, 'fork', start_ns, NULL, NULL, thread_id
    FROM graph.thread_wait
    WHERE first_node_id IS NOT NULL
)

SELECT
    run_id,
    trace_id,
    thread_id,
    cause,
    resume_ns,
    lead(resume_ns) OVER (PARTITION BY thread_id ORDER BY resume_ns, cause)
    AS next_resume_ns,
    launch_id,
    cause_kernel_id,
    cause_thread_id
FROM moment;
