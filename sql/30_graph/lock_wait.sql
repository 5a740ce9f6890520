-- Waits of threads between ops for other threads, where Python stacks show both the call that
-- waits and the one that ends the wait (`staging.lock_call`): of calls of the same kind on other
-- threads, the last one before the wait is over, in its second half. Waits that end after a
-- fixed time or by other code have none.
-- One row per wait of at least 20 us.
-- Key: thread_id, start_ns.
CREATE TABLE graph.lock_wait (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The waiting thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] When the other thread had done its part: the end of its last op, if it ended the wait
    -- soon after that, or when it did so.
    end_ns,
    -- [ns] Start of the rest of the waiting thread.
    rest_start_ns,
    -- The other thread; NULL if none of its ops are recorded.
    worker_thread_id,
    -- The function outside of PyTorch and Python's standard library that the other thread
    -- returned from last, or its number if there is none.
    awaited_name
) AS
WITH
ended AS (
    SELECT
        rest.run_id,
        rest.trace_id,
        thread.pid,
        thread.thread_id,
        greatest(wait.start_ns, rest.start_ns) AS start_ns,
        rest.start_ns AS rest_start_ns,
        signal.tid,
        signal.start_ns AS signal_ns
    FROM (FROM staging.lock_call WHERE is_wait AND end_ns - start_ns >= 20_000) AS wait
    INNER JOIN staging.thread AS thread USING (trace_id, pid, tid)
    ASOF INNER JOIN (FROM staging.lock_call WHERE NOT is_wait) AS signal
        ON
            wait.trace_id = signal.trace_id
            AND wait.pid = signal.pid
            AND wait.kind = signal.kind
            AND wait.end_ns >= signal.start_ns
    ASOF INNER JOIN graph.thread_rest AS rest
        ON thread.thread_id = rest.thread_id AND wait.end_ns > rest.start_ns
    WHERE
        wait.tid <> signal.tid
        AND 2 * (signal.start_ns - wait.start_ns) >= wait.end_ns - wait.start_ns
        AND wait.end_ns <= rest.end_ns
        AND signal.start_ns > rest.start_ns
),

-- What the other threads return from. Of a function that was open when recording started, the
-- trace only has the line it was at.
recorded AS (
    SELECT trace_id, min(end_ns) AS first_end_ns
    FROM staging.slice
    WHERE cat = 'python_function'
    GROUP BY trace_id
),

returned AS (
    SELECT
        trace_id, pid, tid, end_ns,
        any_value(
            regexp_replace(
                name,
                '^(.+)\((\d+)\): (.*)$',
                CASE WHEN start_ns < first_end_ns THEN '\3 (\1)' ELSE '\3 (\1:\2)' END,
                's'
            )
            ORDER BY start_ns DESC
        ) AS name
    FROM staging.slice
    INNER JOIN recorded USING (trace_id)
    SEMI JOIN (SELECT DISTINCT trace_id, pid, tid FROM ended) USING (trace_id, pid, tid)
    WHERE
        cat = 'python_function'
        AND name LIKE '%.py(%): %'
        AND NOT regexp_matches(name, '^(<|(.*/)?(torch|tracedb/record)/)')
        AND NOT staging.is_standard_file(name)
    GROUP BY trace_id, pid, tid, end_ns
)

SELECT
    ended.run_id,
    ended.trace_id,
    ended.thread_id,
    ended.start_ns,
    CASE
        WHEN last.end_ns > ended.start_ns AND NOT graph.is_long_gap(signal_ns - last.end_ns)
            THEN last.end_ns
        ELSE signal_ns
    END,
    rest_start_ns,
    last.thread_id,
    coalesce(returned.name, concat('thread ', ended.tid))
FROM ended
ASOF LEFT JOIN returned
    ON
        ended.trace_id = returned.trace_id
        AND ended.pid = returned.pid
        AND ended.tid = returned.tid
        AND signal_ns >= returned.end_ns
LEFT JOIN staging.thread AS worker
    ON
        ended.trace_id = worker.trace_id
        AND ended.pid = worker.pid
        AND ended.tid = worker.tid
ASOF LEFT JOIN graph.top_level_event AS last
    ON worker.thread_id = last.thread_id AND signal_ns >= last.end_ns;
