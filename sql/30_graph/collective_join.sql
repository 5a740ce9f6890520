-- Where a thread waited for collectives on the CPU that it had called, between ops or in one
-- (FSDP and DTensor wait in ops of a backward pass): one ends in a recorded call that waits
-- (`staging.work_wait`), or in a rest of the thread, which continues about as soon after
-- that as elsewhere, or after a call after which most rests end so: the thread gets a busy
-- core late. If several end there, the last one counts. Collectives that end by chance, while the thread does something else that is not recorded, end far from the end
-- of the rest.
-- One row per such call or rest in which a collective ends.
-- Key: thread_id, start_ns.
CREATE VIEW graph.collective_join (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The waiting thread.
    thread_id,
    -- Thread that executes the collective.
    worker_thread_id,
    -- [ns] The call or the rest starts.
    start_ns,
    -- [ns] The collective ends.
    end_ns
) AS
WITH
-- Starts and ends of ops on threads that call collectives.
bound AS (
    SELECT
        op.thread_id,
        op_id,
        is_top_level,
        unnest([true, false]) AS is_start,
        unnest([start_ns, end_ns]) AS at_ns
    FROM staging.op AS op
    WHERE
        NOT is_annotation
        AND thread_id IN (SELECT calling_thread_id FROM graph.collective_call)
),

following AS (
    SELECT
        *,
        lead(op_id) OVER in_order AS next_op_id,
        lead(at_ns) OVER in_order AS next_ns
    FROM bound
    WINDOW in_order AS (PARTITION BY thread_id ORDER BY at_ns, is_start, op_id)
),

-- Rests of a thread between top-level ops; and in them, where no inner op is open. An op
-- without inner ops computes.
quiet AS (
    SELECT thread_id, start_ns, end_ns, false AS is_inside
    FROM graph.thread_rest
    WHERE goes_on
    UNION ALL
    SELECT thread_id, at_ns, next_ns, true
    FROM following
    WHERE
        next_ns - at_ns >= 20_000
        AND (is_start OR NOT is_top_level)
        AND (NOT is_start OR next_op_id <> op_id)
),

ended AS (
    SELECT
        call.run_id,
        call.trace_id,
        calling_thread_id AS thread_id,
        call.thread_id AS worker_thread_id,
        calling.name,
        calling.end_ns AS call_end_ns,
        event.end_ns,
        CASE WHEN wait.end_ns >= event.end_ns THEN wait.start_ns END AS wait_start_ns
    FROM graph.collective_call AS call
    INNER JOIN staging.op AS calling ON calling_op_id = calling.op_id
    INNER JOIN graph.top_level_event AS event ON call.op_id = event.node_id
    ASOF LEFT JOIN staging.work_wait AS wait
        ON calling_thread_id = wait.thread_id AND event.end_ns > wait.start_ns
),

last AS (
    SELECT
        ended.*,
        coalesce(wait_start_ns, quiet.start_ns) AS start_ns,
        quiet.end_ns - ended.end_ns AS delay_ns,
        quiet.end_ns - quiet.start_ns AS rest_ns,
        is_inside
    FROM ended
    ASOF LEFT JOIN quiet
        ON ended.thread_id = quiet.thread_id AND ended.end_ns > quiet.start_ns
    WHERE wait_start_ns IS NOT NULL OR ended.end_ns <= quiet.end_ns
    QUALIFY row_number() OVER (
        PARTITION BY ended.thread_id, coalesce(wait_start_ns, quiet.start_ns)
        ORDER BY ended.end_ns DESC, worker_thread_id
    ) = 1
),

typical AS (
    SELECT trace_id, quantile_disc(delay_ns, 0.5) AS delay_ns
    FROM last
    WHERE wait_start_ns IS NULL AND 10 * delay_ns <= rest_ns AND NOT is_inside
    GROUP BY trace_id
),

judged AS (
    SELECT
        last.*,
        NOT is_inside AND abs(last.start_ns - call_end_ns) <= 20_000 AS is_after_call,
        wait_start_ns IS NOT NULL
        OR coalesce(last.delay_ns <= 4 * typical.delay_ns, false)
        AND CASE WHEN is_inside THEN 10 ELSE 2 END * last.delay_ns <= rest_ns AS is_soon
    FROM last
    LEFT JOIN typical USING (trace_id)
)

SELECT run_id, trace_id, thread_id, worker_thread_id, start_ns, end_ns
FROM judged
QUALIFY
    is_soon
    OR is_after_call
    AND 2 * delay_ns <= rest_ns
    AND avg(is_soon::INTEGER) OVER (PARTITION BY trace_id, name, is_after_call) > 0.5;
