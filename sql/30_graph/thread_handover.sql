-- Times at which one thread goes on shortly after another one of its process has stopped:
-- that stopped while this rested, and rests still. As by chance this one would go on at any
-- time while both rest, the share of it that has passed is the chance of
-- so short a delay.
-- One row per thread that goes on, time, and thread that rests.
-- Key: thread_id, resume_ns, worker_thread_id.
CREATE TABLE graph.thread_handover (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Thread that goes on.
    thread_id,
    -- [ns] Begin of its rest.
    stop_ns,
    -- [ns] It goes on.
    resume_ns,
    -- Thread that has stopped.
    worker_thread_id,
    -- [ns] That has stopped.
    worker_stop_ns,
    -- [ns] From then until this one goes on.
    delay_ns,
    -- [1] How likely chance alone has it go on so soon.
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
    -- Times of old files are whole microseconds.
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
