-- What lets idle threads continue, inferred from how they take turns: another thread stops
-- (`graph.thread_tie`), or does something (`graph.possible_cause`). Excluded are threads of
-- a process group on the CPU, and waits of their callers, because these are known
-- (`graph.collective_call`). If a thread that stops lets an earlier one continue
-- (`graph.thread_order`), and a third thread continues again and again a wake-up later than
-- that, it is the earlier one that wakes the third.
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
        run_id,
        trace_id,
        thread_id,
        stop_ns,
        resume_ns,
        worker_thread_id,
        worker_stop_ns,
        is_pair,
        cause.thread_id IS NOT NULL AS is_cause,
        false AS is_signal
    FROM graph.thread_handover
    INNER JOIN graph.thread_tie USING (run_id, trace_id, thread_id, worker_thread_id)
    LEFT JOIN (
        SELECT thread_id, resume_ns, worker_thread_id
        FROM graph.possible_cause
        WHERE is_cause AND NOT is_signal
    ) AS cause USING (thread_id, resume_ns, worker_thread_id)
    UNION ALL
    SELECT
        run_id, trace_id, thread_id, stop_ns, resume_ns, worker_thread_id, at_ns,
        false, true, true
    FROM graph.possible_cause
    WHERE is_cause AND is_signal AND thread_id <> worker_thread_id
),

-- Threads that continue after one that the same thread's stop has let continue.
relayed AS (
    SELECT
        later.trace_id,
        later.thread_id,
        later.resume_ns,
        later.worker_thread_id,
        first.thread_id AS relay_thread_id,
        first.resume_ns AS relay_ns,
        later.resume_ns - later.worker_stop_ns AS later_ns,
        first.resume_ns - first.worker_stop_ns AS first_ns
    FROM inferred AS later
    INNER JOIN inferred AS first
        ON
            later.worker_thread_id = first.worker_thread_id
            AND later.worker_stop_ns = first.worker_stop_ns
            AND later.thread_id <> first.thread_id
            AND later.resume_ns > first.resume_ns
    INNER JOIN graph.thread_order AS first_order ON first.thread_id = first_order.thread_id
    INNER JOIN graph.thread_order AS later_order ON later.thread_id = later_order.thread_id
    INNER JOIN graph.thread_order AS worker_order
        ON later.worker_thread_id = worker_order.thread_id
    WHERE
        later.is_cause
        AND first.is_cause
        AND first_order.ordinal < least(later_order.ordinal, worker_order.ordinal)
    QUALIFY row_number() OVER (
        PARTITION BY later.thread_id, later.resume_ns ORDER BY first_order.ordinal
    ) = 1
),

relay AS (
    SELECT thread_id, worker_thread_id, relay_thread_id
    FROM relayed
    GROUP BY thread_id, worker_thread_id, relay_thread_id
    HAVING count(*) >= 3 AND median(later_ns) >= 1.5 * median(first_ns)
),

caused AS (
    SELECT inferred.* REPLACE (
        coalesce(relay_thread_id, inferred.worker_thread_id) AS worker_thread_id,
        coalesce(relay_ns, inferred.worker_stop_ns) AS worker_stop_ns,
        inferred.is_pair AND relay_ns IS NULL AS is_pair,
        inferred.is_signal OR relay_ns IS NOT NULL AS is_signal
    )
    FROM inferred
    LEFT JOIN (
        FROM relayed SEMI JOIN relay USING (thread_id, worker_thread_id, relay_thread_id)
    ) AS relayed
        ON
            inferred.thread_id = relayed.thread_id
            AND inferred.resume_ns = relayed.resume_ns
            AND inferred.worker_thread_id = relayed.worker_thread_id
            AND is_cause
)

SELECT caused.*
FROM caused
ANTI JOIN graph.collective_call AS call
    ON
        caused.thread_id = call.thread_id
        OR caused.thread_id = calling_thread_id
        AND worker_thread_id = call.thread_id;
