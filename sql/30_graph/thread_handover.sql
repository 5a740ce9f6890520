-- Times at which one thread continues shortly after another one of its process has stopped:
-- that one stopped while this one rested, and is still resting. By chance, this one would
-- continue at any time while both rest, so the elapsed share of that time is the
-- probability of such a short delay. Among more than 64 threads of a process, only those
-- pairs are considered of which one continues at least once while the other one is among
-- the last 16 that stopped.
-- One row per thread that continues, time, and resting thread.
-- Key: thread_id, resume_ns, worker_thread_id.
CREATE TABLE graph.thread_handover (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The thread that continues.
    thread_id,
    -- [ns] Start of its rest.
    stop_ns,
    -- [ns] Time when it continues.
    resume_ns,
    -- The thread that has stopped.
    worker_thread_id,
    -- [ns] Time when that thread stopped.
    worker_stop_ns,
    -- [ns] From then until this one continues.
    delay_ns,
    -- [1] Probability that it continues so soon by chance.
    chance_share
) AS
WITH
rest AS (
    SELECT DISTINCT
        run_id, trace_id, pid, thread_id, stop_ns, resume_ns, has_stopped, goes_on
    FROM graph.thread_rest
),

thread AS (
    SELECT DISTINCT trace_id, pid, thread_id FROM rest
),

crowd AS (
    SELECT trace_id, pid FROM thread GROUP BY trace_id, pid HAVING count(*) > 64
),

stop AS (
    SELECT
        trace_id, pid, thread_id, stop_ns,
        row_number() OVER (PARTITION BY trace_id, pid ORDER BY stop_ns, thread_id) AS ordinal
    FROM rest
    SEMI JOIN crowd USING (trace_id, pid)
    WHERE has_stopped
),

near AS (
    SELECT DISTINCT
        unnest([resumed.thread_id, stop.thread_id]) AS thread_id,
        unnest([stop.thread_id, resumed.thread_id]) AS worker_thread_id
    FROM (
        SELECT
            rest.trace_id,
            rest.pid,
            rest.thread_id,
            unnest(range(ordinal - 15, ordinal + 1)) AS ordinal
        FROM rest
        ASOF INNER JOIN stop
            ON
                rest.trace_id = stop.trace_id
                AND rest.pid = stop.pid
                AND rest.resume_ns >= stop.stop_ns
        WHERE goes_on
    ) AS resumed
    INNER JOIN stop USING (trace_id, pid, ordinal)
    WHERE resumed.thread_id <> stop.thread_id
),

pair AS (
    SELECT rest.*, other.thread_id AS worker_thread_id
    FROM rest
    INNER JOIN (FROM thread ANTI JOIN crowd USING (trace_id, pid)) AS other
        ON
            rest.trace_id = other.trace_id
            AND rest.pid = other.pid
            AND rest.thread_id <> other.thread_id
    WHERE goes_on
    UNION ALL
    SELECT rest.*, worker_thread_id
    FROM rest
    INNER JOIN near USING (thread_id)
    WHERE goes_on
)

SELECT
    pair.run_id,
    pair.trace_id,
    pair.thread_id,
    pair.stop_ns,
    pair.resume_ns,
    worker_thread_id,
    worker.stop_ns AS worker_stop_ns,
    pair.resume_ns - worker.stop_ns AS delay_ns,
    -- Times in old files are whole microseconds.
    least(
        (delay_ns + 1_000) / (
            least(pair.resume_ns - pair.stop_ns, worker.resume_ns - worker.stop_ns) + 1_000
        ),
        1
    )
FROM pair
ASOF INNER JOIN rest AS worker
    ON pair.worker_thread_id = worker.thread_id AND pair.resume_ns >= worker.stop_ns
WHERE
    worker.has_stopped
    AND worker.stop_ns >= pair.stop_ns
    AND worker.resume_ns > pair.resume_ns;
