-- How steady the delays are after which a thread continues when another one has stopped: a
-- machine wakes a thread in about the same time, while for unrelated threads a delay is as
-- likely to be any. Counted are handovers without a third thread that continues in between,
-- because that may have passed it on, and delays of up to 0.1 ms.
-- One row per thread that continues and thread that stops, if it does so three times or more.
-- Key: thread_id, worker_thread_id.
CREATE VIEW graph.steady_handover (
    -- The thread that continues.
    thread_id,
    -- The thread that stops.
    worker_thread_id,
    -- [1] Probability that all, nine of ten, or half of the delays are as close to each other
    -- by chance, the least of these three, by Chernoff's bound for ranges that start at any
    -- of the delays.
    steady_share,
    -- [1] Probability that the delays of both directions are by chance, by Fisher's method;
    -- NULL if the other one does so less often.
    mutual_share
) AS
WITH
-- When any thread had continued last before a thread continues, and when one does next.
resumed AS (
    SELECT
        thread_id,
        resume_ns,
        lag(resume_ns) OVER in_order AS last_resume_ns,
        lead(resume_ns) OVER in_order AS next_resume_ns
    FROM (SELECT DISTINCT trace_id, thread_id, resume_ns FROM graph.thread_rest)
    WINDOW in_order AS (PARTITION BY trace_id ORDER BY resume_ns)
),

direct AS (
    SELECT
        thread_id,
        worker_thread_id,
        delay_ns,
        -- [1] Probability of each ns within which it continues: after the next thread did, its
        -- handover would not count.
        greatest(
            chance_share / (delay_ns + 1_000),
            coalesce(1 / (next_resume_ns - worker_stop_ns + 1_000), 0)
        ) AS ns_share,
        count(*) OVER (PARTITION BY thread_id, worker_thread_id) AS handover_count
    FROM graph.thread_handover
    INNER JOIN resumed USING (thread_id, resume_ns)
    WHERE last_resume_ns IS NULL OR last_resume_ns <= worker_stop_ns
),

-- Ranges of delays that start at any of them, and have enough of the others.
near AS (
    SELECT
        thread_id,
        worker_thread_id,
        handover_count,
        (enough_count - 1) / (handover_count - 1) AS near_share,
        lead(delay_ns, enough_count - 1) OVER (of_count ORDER BY delay_ns) AS last_ns,
        (last_ns - delay_ns + 1_000) * avg(ns_share) OVER of_count AS range_share
    FROM (
        SELECT *, unnest(list_distinct([
            handover_count, (9 * handover_count + 9) // 10, (handover_count + 1) // 2
        ])) AS enough_count
        FROM direct
    )
    WHERE enough_count >= 3
    WINDOW of_count AS (PARTITION BY thread_id, worker_thread_id, enough_count)
    QUALIFY last_ns <= 100_000
),

steady AS (
    SELECT
        thread_id,
        worker_thread_id,
        least(
            3 * any_value(handover_count) * exp(-max(
                (handover_count - 1) * (
                    near_share * ln(near_share / range_share)
                    + CASE WHEN near_share < 1 THEN
                        (1 - near_share) * ln((1 - near_share) / (1 - range_share))
                    ELSE 0 END
                )
            )),
            1
        ) AS steady_share
    FROM near
    WHERE range_share < near_share
    GROUP BY thread_id, worker_thread_id
)

SELECT
    thread_id,
    worker_thread_id,
    steady_share,
    -- Not of 0, which has no logarithm.
    both_share * (1 - ln(both_share))
FROM (
    SELECT
        own.*,
        CASE
            WHEN other.steady_share IS NOT NULL
                THEN greatest(own.steady_share * other.steady_share, 1e-300)
        END AS both_share
    FROM steady AS own
    LEFT JOIN steady AS other
        ON own.thread_id = other.worker_thread_id AND own.worker_thread_id = other.thread_id
);
