-- Rests that end after something that another thread does in the middle of its work: the
-- start or end of an op, a call or a user range after which the resting thread continues
-- again and again (`graph.thread_tie` has those that end when another thread stops).
-- Examples are a loader that finds room, or a thread that takes what a busy loader has
-- produced.
-- One row per rest of a thread.
-- Key: thread_id, resume_ns.
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
-- Rests that are longer than it takes to wake a thread, and end otherwise.
rest AS (
    SELECT DISTINCT run_id, trace_id, pid, thread_id, stop_ns, resume_ns
    FROM graph.thread_rest
    ANTI JOIN (
        SELECT thread_id, resume_ns
        FROM graph.thread_handover AS handover
        INNER JOIN graph.thread_tie AS tie USING (trace_id, thread_id, worker_thread_id)
        WHERE is_tied AND handover.chance_share <= 0.5
    ) USING (thread_id, resume_ns)
    WHERE goes_on AND resume_ns - stop_ns >= 30_000
),

done AS (
    SELECT event.trace_id, event.thread_id, name, event.start_ns, event.end_ns
    FROM graph.top_level_event AS event
    INNER JOIN graph.node USING (trace_id, node_id)
    UNION ALL
    SELECT trace_id, thread_id, regexp_replace(name, '[0-9]+', '', 'g'), start_ns, end_ns
    FROM staging.annotation
),

-- Rests and endpoints are joined by the 0.1 ms that contains them: joined by times alone,
-- each rest would meet all endpoints.
endpoint AS (
    SELECT *, at_ns // 100_000 AS bin
    FROM (
        SELECT trace_id, thread_id, name, false AS is_end, start_ns AS at_ns FROM done
        UNION ALL
        SELECT trace_id, thread_id, name, true, end_ns FROM done
    )
    INNER JOIN (SELECT thread_id, pid FROM staging.thread) USING (thread_id)
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

-- For each kind of endpoint, the last one before a rest ends.
behind AS (
    SELECT
        rest.* EXCLUDE (bin),
        endpoint.thread_id AS worker_thread_id,
        name,
        is_end,
        at_ns AS signal_ns,
        rest.resume_ns - at_ns AS delay_ns
    FROM (
        SELECT *, unnest([resume_ns // 100_000 - 1, resume_ns // 100_000]) AS bin
        FROM rest
    ) AS rest
    INNER JOIN endpoint USING (trace_id, pid, bin)
    LEFT JOIN (SELECT DISTINCT thread_id, resume_ns FROM graph.thread_rest) AS woken
        ON endpoint.thread_id = woken.thread_id AND at_ns = woken.resume_ns
    WHERE
        rest.thread_id <> endpoint.thread_id
        -- Two threads that continue together were woken by a third one.
        AND (woken.resume_ns IS NULL OR graph.is_well_before(at_ns, rest.resume_ns))
        AND at_ns > rest.resume_ns - 100_000 AND at_ns <= rest.resume_ns
    QUALIFY row_number() OVER (
        PARTITION BY rest.thread_id, rest.resume_ns, endpoint.thread_id, name, is_end
        ORDER BY at_ns DESC
    ) = 1
),

rest_count AS (
    SELECT trace_id, thread_id, count(*) AS rest_count FROM rest GROUP BY trace_id, thread_id
),

-- The number of rests that would end as soon after such endpoints by chance.
ranked AS (
    SELECT
        behind.*,
        rest_count,
        endpoint_count,
        row_number() OVER of_kind AS hit_count,
        rest_count * endpoint_count * (delay_ns + 1_000) / trace_ns AS expected_count
    FROM behind
    INNER JOIN rest_count USING (trace_id, thread_id)
    INNER JOIN endpoint_kind USING (worker_thread_id, name, is_end)
    INNER JOIN extent ON behind.trace_id = extent.trace_id
    WINDOW of_kind AS (
        PARTITION BY behind.thread_id, worker_thread_id, behind.name, behind.is_end
        ORDER BY delay_ns, resume_ns
    )
),

-- By Poisson's law.
judged AS (
    SELECT
        *,
        exp(
            hit_count * ln(expected_count) - lgamma(hit_count + 1) - expected_count
        ) AS chance
    FROM ranked
    WHERE 2 * expected_count < hit_count
),

-- With several kinds of endpoints, one is more likely to look significant.
tried AS (
    SELECT worker_thread_id, count(*) AS try_count
    FROM endpoint_kind
    WHERE endpoint_count >= 3
    GROUP BY worker_thread_id
),

kind AS (
    SELECT
        judged.thread_id,
        worker_thread_id,
        name,
        is_end,
        min(chance) * any_value(try_count) AS chance_share,
        arg_min(delay_ns, chance) AS typical_ns
    FROM judged
    INNER JOIN tried USING (worker_thread_id)
    WHERE hit_count >= 3 AND 2 * hit_count >= least(rest_count, endpoint_count)
    GROUP BY ALL
    HAVING chance_share < 1e-4
)

SELECT
    behind.run_id,
    behind.trace_id,
    thread_id,
    behind.stop_ns,
    behind.resume_ns,
    worker_thread_id,
    behind.signal_ns,
    behind.delay_ns,
    name,
    is_end,
    chance_share
FROM behind
INNER JOIN kind USING (thread_id, worker_thread_id, name, is_end)
WHERE behind.delay_ns <= 2 * typical_ns
QUALIFY row_number() OVER (
    PARTITION BY thread_id, behind.resume_ns
    ORDER BY behind.delay_ns, chance_share, worker_thread_id, name, is_end
) = 1;
