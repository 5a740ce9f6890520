-- Which threads continue because another one has stopped, judged by all their handovers in
-- both directions, whatever the threads and their ops are called. For unrelated threads,
-- handovers are as often late as soon, and not equally late: each of these is by chance once
-- in 10,000 pairs. Unrelated threads that are busy at the same times of each step follow each
-- other more often than that, but seldom within 0.2 ms, as two of five handovers of a pair
-- have to. Threads that a third one wakes one after the other may be tied, too. Less
-- evidence is enough if forward ops of one are linked to backward ops of the other, or one
-- is known to be autograd's.
-- One row per thread that continues and thread that stops, if that happens.
-- Key: thread_id, worker_thread_id.
CREATE TABLE graph.thread_tie (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The thread that continues.
    thread_id,
    -- The thread that stops.
    worker_thread_id,
    -- Number of times.
    handover_count,
    -- Forward ops on one of them whose backward op is on the other, from sequence numbers
    -- and flows.
    link_count,
    -- Whether such ops, or the role of one of them, show that they belong to one program.
    is_known,
    -- [1] Probability that it continues as soon after the other's stops by chance.
    chance_share,
    -- [1] Probability that it does so equally late by chance (`graph.steady_handover`).
    steady_share,
    -- [1] Probability that both do so after each other's stops by chance.
    mutual_share,
    -- Whether they work for each other.
    is_pair,
    -- Whether this one continues because the other has stopped.
    is_tied
) AS
WITH
-- Sequence numbers count within a thread: they coincide on two threads that only go
-- forward.
numbered AS (
    SELECT DISTINCT
        trace_id, thread_id, sequence_number, forward_thread > 0 AS is_backward
    FROM staging.op
    WHERE sequence_number IS NOT NULL AND forward_thread IS NOT NULL
),

link AS (
    SELECT trace_id, forward.thread_id AS one_id, backward.thread_id AS other_id
    FROM numbered AS forward
    INNER JOIN numbered AS backward USING (trace_id, sequence_number)
    WHERE NOT forward.is_backward AND backward.is_backward
    UNION ALL
    SELECT flow.trace_id, forward.thread_id, backward.thread_id
    FROM staging.flow AS flow
    INNER JOIN staging.thread AS forward
        ON
            flow.trace_id = forward.trace_id
            AND flow.source_pid = forward.pid
            AND flow.source_tid = forward.tid
    INNER JOIN staging.thread AS backward
        ON
            flow.trace_id = backward.trace_id
            AND flow.target_pid = backward.pid
            AND flow.target_tid = backward.tid
),

linked AS (
    SELECT
        least(one_id, other_id) AS one_id,
        greatest(one_id, other_id) AS other_id,
        count(*) AS link_count
    FROM link
    WHERE one_id <> other_id
    GROUP BY ALL
),

judged AS (
    SELECT
        handover.run_id,
        handover.trace_id,
        handover.thread_id,
        worker_thread_id,
        least(handover.thread_id, worker_thread_id) AS one_id,
        greatest(handover.thread_id, worker_thread_id) AS other_id,
        delay_ns,
        chance_share,
        link_count,
        link_count IS NOT NULL
        OR (own.role = 'autograd') <> (worker.role = 'autograd') AS is_known
    FROM graph.thread_handover AS handover
    INNER JOIN staging.thread AS own ON handover.thread_id = own.thread_id
    INNER JOIN staging.thread AS worker ON worker_thread_id = worker.thread_id
    LEFT JOIN linked
        ON
            least(handover.thread_id, worker_thread_id) = one_id
            AND greatest(handover.thread_id, worker_thread_id) = other_id
),

-- For the probabilities of all handovers in order: how likely so many of n are so small, by
-- Chernoff's bound, the best of n such tries.
ranked AS (
    SELECT
        *,
        count(*) OVER one_way AS handover_count,
        count(*) OVER both_ways AS mutual_count,
        row_number() OVER (one_way ORDER BY chance_share) / handover_count AS rank_share,
        row_number() OVER (both_ways ORDER BY chance_share) / mutual_count AS mutual_rank
    FROM judged
    WINDOW
        one_way AS (PARTITION BY thread_id, worker_thread_id),
        both_ways AS (PARTITION BY one_id, other_id)
),

divergence AS (
    SELECT
        *,
        CASE WHEN rank_share > chance_share THEN
            rank_share * ln(rank_share / chance_share)
            + CASE WHEN rank_share < 1 THEN
                (1 - rank_share) * ln((1 - rank_share) / (1 - chance_share))
            ELSE 0 END
        ELSE 0 END AS one_way,
        CASE WHEN mutual_rank > chance_share AND (
            is_known OR (delay_ns <= 200_000 AND mutual_rank >= 0.4)
        ) THEN
            mutual_rank * ln(mutual_rank / chance_share)
            + CASE WHEN mutual_rank < 1 THEN
                (1 - mutual_rank) * ln((1 - mutual_rank) / (1 - chance_share))
            ELSE 0 END
        ELSE 0 END AS both_ways
    FROM ranked
),

mutual AS (
    SELECT
        one_id,
        other_id,
        least(count(*) * exp(-count(*) * max(both_ways)), 1) AS mutual_share
    FROM divergence
    GROUP BY one_id, other_id
),

weighed AS (
    SELECT
        any_value(run_id) AS run_id,
        trace_id,
        thread_id,
        worker_thread_id,
        one_id,
        other_id,
        count(*) AS handover_count,
        coalesce(any_value(link_count), 0) AS link_count,
        any_value(is_known) AS is_known,
        least(count(*) * exp(-count(*) * max(one_way)), 1) AS chance_share,
        coalesce(any_value(steady_share), 1) AS steady_share,
        least(any_value(mutual.mutual_share), any_value(steady.mutual_share)) AS mutual_share
    FROM divergence
    INNER JOIN mutual USING (one_id, other_id)
    LEFT JOIN graph.steady_handover AS steady USING (thread_id, worker_thread_id)
    GROUP BY trace_id, thread_id, worker_thread_id, one_id, other_id
)

SELECT
    run_id,
    trace_id,
    thread_id,
    worker_thread_id,
    handover_count,
    link_count,
    is_known,
    chance_share,
    steady_share,
    mutual_share,
    mutual_share <= CASE WHEN is_known THEN 0.5 ELSE 1e-4 END AS is_pair,
    (
        is_pair AND (is_known OR least(chance_share, steady_share) <= 0.1)
        OR steady_share <= 1e-4
    ) AS is_tied
FROM weighed;
