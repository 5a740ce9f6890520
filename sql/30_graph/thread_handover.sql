-- Times at which one thread continues shortly after another one of its process has stopped:
-- that one stopped while this one rested, and is still resting. By chance, this one would
-- continue at any time while both rest, so the elapsed share of that time is the
-- probability of such a short delay.
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

pair AS (
    SELECT rest.*, other.thread_id AS worker_thread_id
    FROM rest
    INNER JOIN (SELECT DISTINCT trace_id, pid, thread_id FROM rest) AS other
        ON
            rest.trace_id = other.trace_id
            AND rest.pid = other.pid
            AND rest.thread_id <> other.thread_id
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
