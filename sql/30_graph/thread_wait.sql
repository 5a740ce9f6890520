-- Times in which a thread idles until another one has stopped or signalled: it waits for
-- that thread's work (`join`), or to be woken by it (`fork`). Inferred from how threads
-- take turns (`graph.thread_tie`, `graph.thread_signal`), except for threads of a process
-- group on the CPU: those are woken when a collective is called (`graph.collective_call`),
-- and the caller waits for them (`graph.collective_join`). Of two threads, the main thread
-- wakes the other; otherwise the one that started first does. A thread that several threads
-- wait for waits for them one after another.
-- One row per wait of a thread.
-- Key: thread_id, start_ns.
CREATE TABLE graph.thread_wait (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The waiting thread.
    thread_id,
    -- The thread it waits for.
    worker_thread_id,
    -- `join` or `fork`.
    kind,
    -- [ns] Start of the wait: the thread stops, or the thread that it wakes starts.
    start_ns,
    -- [ns] End: the other thread has stopped, or has signalled; for a fork, the one that
    -- had woken the first thread.
    end_ns,
    -- Last top-level event of the waiting thread before the wait.
    before_node_id,
    -- Last top-level event of the other thread before the end.
    last_node_id,
    -- First top-level event of the waiting thread after the wait, or the one around it.
    after_node_id
) AS
WITH
handover AS (
    SELECT
        cause.*,
        CASE WHEN own.ordinal < worker.ordinal THEN 'join' ELSE 'fork' END AS kind
    FROM graph.thread_cause AS cause
    INNER JOIN graph.thread_order AS own USING (trace_id, thread_id)
    INNER JOIN graph.thread_order AS worker
        ON cause.trace_id = worker.trace_id AND worker_thread_id = worker.thread_id
),

-- Start of the first of the threads that a thread wakes as it stops.
waking AS (
    SELECT
        worker_thread_id AS thread_id,
        worker_stop_ns AS stop_ns,
        min(resume_ns) AS woken_ns,
        list(handover.thread_id) AS woken_ids
    FROM handover
    WHERE is_cause AND kind = 'fork' AND NOT is_signal
    GROUP BY worker_thread_id, worker_stop_ns
),

-- A thread waits for the thread that stops last, and for all threads it had woken.
chosen AS (
    SELECT handover.*
    FROM handover
    LEFT JOIN waking USING (thread_id, stop_ns)
    WHERE is_cause OR (is_pair AND list_contains(woken_ids, worker_thread_id))
),

-- End of each wait: the last part of a longer wait ends when the other thread has stopped,
-- earlier parts end after something that it does.
awaited AS (
    SELECT
        chosen.*,
        rest.start_ns,
        rest.end_ns AS rest_end_ns,
        CASE
            WHEN rest.end_ns = resume_ns THEN worker_stop_ns ELSE passed.end_ns
        END AS awaited_ns
    FROM chosen
    INNER JOIN graph.thread_rest AS rest
        USING (trace_id, thread_id, stop_ns, resume_ns)
    ASOF LEFT JOIN graph.top_level_event AS passed
        ON chosen.worker_thread_id = passed.thread_id AND rest.end_ns >= passed.end_ns
    WHERE
        rest.end_ns = resume_ns
        OR (
            is_cause
            AND NOT is_signal
            AND 2 * (passed.end_ns - rest.start_ns) >= rest.end_ns - rest.start_ns
        )
),

-- A thread that wakes others as it stops starts to wait when the first of them starts.
waking_rest AS (
    SELECT thread_id, stop_ns, start_ns, any_value(woken_ns) AS woken_ns
    FROM awaited
    INNER JOIN waking USING (thread_id, stop_ns)
    WHERE woken_ns >= awaited.start_ns AND woken_ns < rest_end_ns
    GROUP BY thread_id, stop_ns, start_ns
    HAVING any_value(woken_ns) < min(awaited_ns)
),

ended AS (
    SELECT
        awaited.*,
        coalesce(own.woken_ns, awaited.start_ns) AS first_start_ns,
        CASE
            WHEN awaited.kind = 'fork' AND rest_end_ns = resume_ns
                THEN coalesce(waking_rest.woken_ns, awaited_ns)
            ELSE awaited_ns
        END AS wait_end_ns
    FROM awaited
    LEFT JOIN waking_rest AS own USING (thread_id, start_ns)
    LEFT JOIN waking_rest
        ON
            awaited.worker_thread_id = waking_rest.thread_id
            AND awaited.worker_stop_ns = waking_rest.stop_ns
),

waited AS (
    SELECT
        run_id,
        trace_id,
        thread_id,
        worker_thread_id,
        kind,
        wait_end_ns,
        greatest(
            first_start_ns,
            lag(wait_end_ns) OVER (
                PARTITION BY thread_id, start_ns ORDER BY wait_end_ns, worker_thread_id
            )
        ) AS wait_start_ns
    FROM ended
    ANTI JOIN graph.lock_wait AS locked
        ON ended.thread_id = locked.thread_id AND ended.start_ns = rest_start_ns
    UNION ALL
    SELECT
        locked.run_id, locked.trace_id, locked.thread_id, worker_thread_id,
        CASE WHEN own.ordinal < worker.ordinal THEN 'join' ELSE 'fork' END, end_ns, start_ns
    FROM graph.lock_wait AS locked
    INNER JOIN graph.thread_order AS own ON locked.thread_id = own.thread_id
    INNER JOIN graph.thread_order AS worker ON worker_thread_id = worker.thread_id
    UNION ALL
    -- A thread of a process group idles until a collective is called.
    SELECT
        call.run_id, call.trace_id, call.thread_id, calling_thread_id, 'fork', called_ns,
        rest.start_ns
    FROM graph.collective_call AS call
    INNER JOIN graph.thread_rest AS rest
        ON call.thread_id = rest.thread_id AND call.start_ns = rest.end_ns
    UNION ALL
    SELECT run_id, trace_id, thread_id, worker_thread_id, 'join', end_ns, start_ns
    FROM graph.collective_join
)

SELECT
    waited.run_id,
    waited.trace_id,
    waited.thread_id,
    worker_thread_id,
    kind,
    wait_start_ns,
    wait_end_ns,
    before.node_id AS before_node_id,
    last.node_id AS last_node_id,
    coalesce(CASE WHEN around.end_ns > wait_end_ns THEN around.node_id END, after.node_id)
    AS after_node_id
FROM waited
ASOF LEFT JOIN graph.top_level_event AS before
    ON waited.thread_id = before.thread_id AND wait_start_ns >= before.end_ns
ASOF LEFT JOIN graph.top_level_event AS around
    ON waited.thread_id = around.thread_id AND wait_start_ns >= around.start_ns
ASOF LEFT JOIN graph.top_level_event AS last
    ON waited.worker_thread_id = last.thread_id AND wait_end_ns >= last.end_ns
ASOF LEFT JOIN graph.top_level_event AS after
    ON waited.thread_id = after.thread_id AND wait_end_ns <= after.start_ns
WHERE wait_end_ns > wait_start_ns;
