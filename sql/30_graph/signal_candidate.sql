-- What other threads do shortly before a rest ends: for each of their ops, calls and user
-- ranges, its last start or end in the 0.1 ms before, if it is among the last 128 of the
-- process. One of these may have ended the rest, also if another thread stopped
-- (`graph.thread_tie`).
-- One row per rest of a thread, and kind of start or end.
-- Key: thread_id, resume_ns, worker_thread_id, name, is_end.
CREATE TABLE graph.signal_candidate (
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
    -- Name of what it did, without numbers.
    name,
    -- Whether that ended; otherwise it started.
    is_end,
    -- [ns] When it did.
    signal_ns,
    -- [ns] From then until the other continues.
    delay_ns,
    -- Whether a thread that is tied to it had stopped then.
    is_tied,
    -- Number of rests of the thread for which that is the same.
    rest_count,
    -- Number of starts or ends of that name on the working thread.
    endpoint_count,
    -- Number of names of starts and ends that it has at least three times.
    try_count,
    -- [ns] Duration of the trace.
    trace_ns
) AS
WITH
-- Rests that are longer than it takes to wake a thread.
rest AS (
    SELECT DISTINCT
        run_id, trace_id, pid, thread_id, stop_ns, resume_ns, tied.thread_id IS NOT NULL AS is_tied
    FROM graph.thread_rest
    LEFT JOIN (
        SELECT thread_id, resume_ns
        FROM graph.thread_handover AS handover
        INNER JOIN graph.thread_tie AS tie USING (trace_id, thread_id, worker_thread_id)
        WHERE is_tied AND handover.chance_share <= 0.5
    ) AS tied USING (thread_id, resume_ns)
    WHERE goes_on AND resume_ns - stop_ns >= 30_000
),

done AS (
    SELECT
        event.trace_id, event.thread_id, name, event.start_ns, event.end_ns,
        event.start_ns - previous_end_ns < 20_000 AS goes_on
    FROM graph.top_level_event AS event
    INNER JOIN graph.node USING (trace_id, node_id)
    UNION ALL
    SELECT
        trace_id, thread_id, regexp_replace(name, '[0-9]+', '', 'g'), start_ns, end_ns, false
    FROM staging.annotation
),

-- Rests and endpoints are joined by the places of these in their order: joined by times
-- alone, each rest would meet all endpoints.
endpoint AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id, pid ORDER BY at_ns) AS place,
        count(*) OVER (PARTITION BY trace_id, pid ORDER BY at_ns) AS last_place
    FROM (
        SELECT trace_id, thread_id, name, false AS is_end, goes_on, start_ns AS at_ns
        FROM done
        UNION ALL
        SELECT trace_id, thread_id, name, true, false, end_ns FROM done
    )
    INNER JOIN (SELECT thread_id, pid FROM staging.thread) USING (thread_id)
    INNER JOIN graph.thread_order USING (trace_id, thread_id)
),

endpoint_kind AS (
    SELECT thread_id AS worker_thread_id, name, is_end, count(*) AS endpoint_count
    FROM endpoint
    GROUP BY ALL
),

extent AS (
    SELECT trace_id, max(end_ns) - min(start_ns) AS trace_ns
    FROM graph.top_level_event GROUP BY trace_id
),

tried AS (
    SELECT worker_thread_id, count_if(endpoint_count >= 3) AS try_count
    FROM endpoint_kind
    GROUP BY worker_thread_id
),

rest_count AS (
    SELECT thread_id, is_tied, count(*) AS rest_count FROM rest GROUP BY thread_id, is_tied
),

behind AS (
    SELECT
        rest.* EXCLUDE (place, before_ns, ordinal),
        endpoint.thread_id AS worker_thread_id,
        name,
        is_end,
        at_ns AS signal_ns,
        rest.resume_ns - at_ns AS delay_ns
    FROM (
        SELECT
            rest.*,
            unnest(range(
                greatest(coalesce(before.last_place, 0), nearest.last_place - 128) + 1,
                nearest.last_place + 1
            )) AS place
        FROM (
            SELECT *, resume_ns - 100_000 AS before_ns
            FROM rest
            INNER JOIN (SELECT thread_id, ordinal FROM graph.thread_order) USING (thread_id)
        ) AS rest
        ASOF INNER JOIN endpoint AS nearest
            ON
                rest.trace_id = nearest.trace_id
                AND rest.pid = nearest.pid
                AND resume_ns >= nearest.at_ns
        ASOF LEFT JOIN endpoint AS before
            ON
                rest.trace_id = before.trace_id
                AND rest.pid = before.pid
                AND before_ns >= before.at_ns
    ) AS rest
    INNER JOIN endpoint USING (trace_id, pid, place)
    LEFT JOIN (SELECT DISTINCT thread_id, resume_ns FROM graph.thread_rest) AS woken
        ON endpoint.thread_id = woken.thread_id AND at_ns = woken.resume_ns
    WHERE
        rest.thread_id <> endpoint.thread_id
        -- Two threads that continue together were woken by a third one.
        AND (woken.resume_ns IS NULL OR graph.is_well_before(at_ns, rest.resume_ns))
        -- What a thread waits for is done when an op ends, not when the next one starts.
        AND NOT (goes_on AND rest.ordinal < endpoint.ordinal)
    QUALIFY row_number() OVER (
        PARTITION BY rest.thread_id, rest.resume_ns, endpoint.thread_id, name, is_end
        ORDER BY at_ns DESC
    ) = 1
)

SELECT
    behind.run_id,
    behind.trace_id,
    behind.thread_id,
    stop_ns,
    resume_ns,
    worker_thread_id,
    name,
    is_end,
    signal_ns,
    delay_ns,
    is_tied,
    rest_count,
    endpoint_count,
    try_count,
    trace_ns
FROM behind
INNER JOIN rest_count USING (thread_id, is_tied)
INNER JOIN endpoint_kind USING (worker_thread_id, name, is_end)
INNER JOIN tried USING (worker_thread_id)
INNER JOIN extent ON behind.trace_id = extent.trace_id;
