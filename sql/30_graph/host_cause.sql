-- Times at which a host thread continued because something elsewhere was over: the end of a
-- blocking call, the end of a wait for another thread, the waking of a worker.
-- One row per time at which a thread continued.
-- Key: trace_id, resume_id.
CREATE TABLE graph.host_cause (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its number in the trace, by thread and time.
    resume_id,
    -- The thread that continued.
    thread_id,
    -- `return` (of a call that blocked for GPU work), `join` or `fork` (of a thread), or
    -- `arrival` (of another rank).
    cause,
    -- [ns] Time at which it continued.
    resume_ns,
    -- The call that blocked.
    call_id,
    -- The GPU work that ended.
    cause_gpu_op_id,
    -- The thread that finished, or that woke it; for another rank, the thread that arrived.
    cause_thread_id,
    -- The last time at which that thread had itself continued: a number like `resume_id`.
    cause_resume_id,
    -- [ns] Time at which that thread finished, by the clock of its trace.
    cause_ns
) AS
WITH
resumption AS (
    SELECT
        run_id, host_wait.trace_id, call.thread_id, 'return' AS cause,
        host_wait.end_ns AS resume_ns, call_id, gpu_op_id AS cause_gpu_op_id,
        NULL::BIGINT AS cause_thread_id, host_wait.end_ns AS cause_ns
    FROM graph.host_wait
    INNER JOIN (SELECT call_id, thread_id FROM staging.call) AS call USING (call_id)
    WHERE is_blocked
    UNION ALL
    SELECT run_id, trace_id, thread_id, kind, end_ns, NULL, NULL, worker_thread_id, end_ns
    FROM graph.thread_wait
    UNION ALL
    SELECT
        run_id, trace_id, thread_id, 'arrival', end_ns, NULL, NULL, awaited_thread_id,
        arrival_ns
    FROM graph.rank_wait
),

numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id
            ORDER BY thread_id, resume_ns, cause, call_id, cause_thread_id
        ) AS resume_id
    FROM resumption
),

-- At equal times, the last one.
latest AS (
    SELECT thread_id, resume_ns, max(resume_id) AS resume_id
    FROM numbered
    GROUP BY thread_id, resume_ns
)

SELECT
    numbered.run_id,
    numbered.trace_id,
    numbered.resume_id,
    numbered.thread_id,
    cause,
    numbered.resume_ns,
    call_id,
    cause_gpu_op_id,
    cause_thread_id,
    latest.resume_id AS cause_resume_id,
    numbered.cause_ns
FROM numbered
ASOF LEFT JOIN latest
    ON
        numbered.cause_thread_id = latest.thread_id
        AND numbered.cause_ns >= latest.resume_ns;
