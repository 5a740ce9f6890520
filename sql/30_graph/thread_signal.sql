-- Rests that end after something that another thread does in the middle of its work: the
-- start or end of an op, a call or a user range after which the resting thread continues
-- again and again. Some of these rests may end because another thread stops
-- (`graph.thread_tie`, `graph.possible_cause`).
-- Examples are a loader that finds room, or a thread that takes what a busy loader has
-- produced.
-- One row per rest of a thread, and kind of start or end.
-- Key: thread_id, resume_ns, worker_thread_id, name, is_end.
CREATE TABLE graph.thread_signal (
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
    -- The working thread.
    worker_thread_id,
    -- [ns] Time of what lets the other continue.
    signal_ns,
    -- [ns] From then until the other continues.
    delay_ns,
    -- Name of what it did, without numbers.
    name,
    -- Whether that ended then; otherwise it started.
    is_end,
    -- [1] Probability that as many such rests end as soon after anything that the other
    -- thread does, by chance.
    chance_share
) AS
WITH
-- The number of rests that would end as soon after such endpoints by chance.
ranked AS (
    SELECT
        *,
        row_number() OVER of_kind AS hit_count,
        rest_count * endpoint_count * (delay_ns + 1_000) / trace_ns AS expected_count
    FROM graph.signal_candidate
    WINDOW of_kind AS (
        PARTITION BY thread_id, is_tied, worker_thread_id, name, is_end ORDER BY delay_ns, resume_ns
    )
),

-- A machine wakes threads in about the same time. So also the shortest range of delays that
-- has enough of them, less likely by chance than all from 0 on; it may start at any of them.
near AS (
    SELECT
        * REPLACE (
            last_ns AS delay_ns,
            enough_count AS hit_count,
            expected_count * (last_ns - delay_ns + 1_000) / (delay_ns + 1_000)
            AS expected_count
        )
    FROM (
        SELECT
            *,
            greatest(3, (least(rest_count, endpoint_count) + 1) // 2) AS enough_count,
            count(*) OVER (
                PARTITION BY thread_id, is_tied, worker_thread_id, name, is_end
            ) AS start_count,
            lead(delay_ns, enough_count - 1) OVER (
                PARTITION BY thread_id, is_tied, worker_thread_id, name, is_end
                ORDER BY delay_ns, resume_ns
            ) AS last_ns
        FROM ranked
    )
    WHERE last_ns IS NOT NULL
),

-- By Poisson's law.
judged AS (
    SELECT
        *,
        start_count * exp(
            hit_count * ln(expected_count) - lgamma(hit_count + 1) - expected_count
        ) AS chance
    FROM (
        SELECT *, 1 AS start_count FROM ranked
        UNION ALL BY NAME
        SELECT * EXCLUDE (enough_count, last_ns) FROM near
    )
    WHERE 2 * expected_count < hit_count
),

kind AS (
    SELECT
        judged.thread_id,
        is_tied,
        worker_thread_id,
        name,
        is_end,
        min(chance * try_count) AS chance_share,
        arg_min(delay_ns, chance) AS typical_ns
    FROM judged
    WHERE hit_count >= 3 AND 2 * hit_count >= least(rest_count, endpoint_count)
    GROUP BY ALL
    HAVING chance_share < 1e-4
)

SELECT
    run_id,
    trace_id,
    thread_id,
    stop_ns,
    resume_ns,
    worker_thread_id,
    signal_ns,
    delay_ns,
    name,
    is_end,
    chance_share
FROM graph.signal_candidate
INNER JOIN kind USING (thread_id, is_tied, worker_thread_id, name, is_end)
WHERE delay_ns <= 2 * typical_ns;
