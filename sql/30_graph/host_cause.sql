-- Moments at which a host thread went on because something elsewhere was over: the end of
-- a call that blocked, the end of a wait for another thread, the waking of a worker.
-- One row per such moment.
-- Key: trace_id, moment.
CREATE TABLE graph.host_cause (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Number of the moment in its trace, by thread and time.
    moment,
    -- Thread that went on.
    thread_id,
    -- `return` (of a call that blocked for GPU work), `join` or `fork` (of a thread).
    cause,
    -- [ns] Moment at which it went on.
    resume_ns,
    -- The call that blocked.
    launch_id,
    -- The GPU work that was over.
    cause_kernel_id,
    -- The thread that was done, or that woke it.
    cause_thread_id,
    -- The last moment of that thread until then: what it went on from.
    cause_moment
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
    SELECT run_id, trace_id, thread_id, kind, end_ns, NULL, NULL, worker_thread_id
    FROM graph.thread_wait
),

numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id
            ORDER BY thread_id, resume_ns, cause, launch_id, cause_thread_id
        ) AS moment
    FROM moment
),

-- Of moments at one time the last.
latest AS (
    SELECT thread_id, resume_ns, max(moment) AS moment
    FROM numbered
    GROUP BY thread_id, resume_ns
)

SELECT
    numbered.run_id,
    numbered.trace_id,
    numbered.moment,
    numbered.thread_id,
    cause,
    numbered.resume_ns,
    launch_id,
    cause_kernel_id,
    cause_thread_id,
    latest.moment AS cause_moment
FROM numbered
ASOF LEFT JOIN latest
    ON
        numbered.cause_thread_id = latest.thread_id
        AND numbered.resume_ns >= latest.resume_ns;
