-- What lets idle threads continue, inferred from how they take turns: another thread stops
-- (`graph.thread_tie`), or does something (`graph.thread_signal`). Excluded are threads of
-- a process group on the CPU, and waits of their callers, because these are known
-- (`graph.collective_call`).
-- One row per rest and thread that may end it.
-- Key: thread_id, resume_ns, worker_thread_id, is_signal.
CREATE VIEW graph.thread_cause (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The resting thread.
    thread_id,
    -- [ns] Start of its rest.
    stop_ns,
    -- [ns] Time when it continues.
    resume_ns,
    -- The other thread.
    worker_thread_id,
    -- [ns] When that thread stopped, or signalled.
    worker_stop_ns,
    -- Whether the two take turns at all.
    is_pair,
    -- Whether that is what the thread waited for.
    is_cause,
    -- Whether the other thread continued, and signalled.
    is_signal
) AS
WITH
inferred AS (
    SELECT
        handover.run_id,
        trace_id,
        thread_id,
        stop_ns,
        resume_ns,
        worker_thread_id,
        worker_stop_ns,
        is_pair,
        is_tied
        AND row_number() OVER (
            PARTITION BY thread_id, resume_ns
            ORDER BY is_tied DESC, delay_ns, worker_thread_id
        ) = 1
        -- Both rest for longer than a handover takes.
        AND handover.chance_share <= 0.5 AS is_cause,
        false AS is_signal
    FROM graph.thread_handover AS handover
    INNER JOIN graph.thread_tie AS tie USING (trace_id, thread_id, worker_thread_id)
    UNION ALL
    SELECT
        run_id, trace_id, thread_id, stop_ns, resume_ns, worker_thread_id, signal_ns,
        false, true, true
    FROM graph.thread_signal
)

SELECT inferred.*
FROM inferred
ANTI JOIN graph.collective_call AS call
    ON
        inferred.thread_id = call.thread_id
        OR inferred.thread_id = calling_thread_id
        AND worker_thread_id = call.thread_id;
