-- What rests of threads may have been waits for, but are not taken to be: rests that are not
-- taken for waits at all (`graph.thread_wait`), are long, or three times as long as usual before
-- such an event, and end soon or steadily after what another thread does; and other possible
-- causes of waits that are about as steady (`graph.possible_cause`). A thread may be woken in
-- the middle of what another one does, so all that the other one did steadily before may have
-- done so.
-- One row per rest, other thread and time.
-- Key: thread_id, resume_ns, other_thread_id, at_ns.
CREATE VIEW graph.possible_wait (
    -- The trace.
    trace_id,
    -- The thread that rests.
    thread_id,
    -- [ns] Start of its rest.
    stop_ns,
    -- [ns] Time when it continues.
    resume_ns,
    -- The other thread.
    other_thread_id,
    -- [ns] Start or end of what that did before.
    at_ns
) AS
WITH
endpoint AS (
    SELECT trace_id, thread_id, unnest([start_ns, end_ns]) AS at_ns FROM graph.top_level_event
),

event AS (
    SELECT event.*, name
    FROM graph.top_level_event AS event
    INNER JOIN graph.node AS node ON event.node_id = node.node_id
),

-- The usual rest before an event, by its name.
usual AS (
    SELECT thread_id, name, median(start_ns - previous_end_ns) AS rest_ns
    FROM event
    GROUP BY thread_id, name
    HAVING count(*) > 3
),

pause AS (
    SELECT DISTINCT whole.trace_id, whole.thread_id, stop_ns, resume_ns
    FROM graph.thread_rest AS whole
    LEFT JOIN event AS after
        ON whole.thread_id = after.thread_id AND whole.resume_ns = after.start_ns
    LEFT JOIN usual ON after.thread_id = usual.thread_id AND after.name = usual.name
    ANTI JOIN graph.thread_wait AS wait
        ON
            whole.thread_id = wait.thread_id
            AND whole.resume_ns >= wait.end_ns
            AND whole.stop_ns < wait.end_ns
    WHERE
        has_stopped AND goes_on
        AND (resume_ns - stop_ns >= 100_000 OR resume_ns - stop_ns > 3 * rest_ns)
),

-- How much the times between what another thread does and the ends of rests vary, for the
-- middle half of them.
steady AS (
    SELECT
        thread_id, worker_thread_id, name, is_end,
        greatest(
            quantile_disc(delay_ns, 0.75) - quantile_disc(delay_ns, 0.25), 1_000
        ) AS spread_ns,
        quantile_disc(resume_ns - stop_ns, 0.75) - quantile_disc(resume_ns - stop_ns, 0.25)
        AS rest_spread_ns
    FROM graph.signal_candidate
    GROUP BY ALL
    HAVING count(*) >= 3 AND 2 * count(*) >= any_value(rest_count)
),

cause AS (
    SELECT *, median(resume_ns - at_ns) OVER (PARTITION BY trace_id) AS usual_ns
    FROM graph.possible_cause
    WHERE is_cause
)

SELECT
    pause.trace_id,
    pause.thread_id,
    stop_ns,
    resume_ns,
    endpoint.thread_id AS other_thread_id,
    at_ns
FROM pause
INNER JOIN (SELECT DISTINCT trace_id, thread_id FROM graph.top_level_event) AS other
    ON pause.trace_id = other.trace_id AND pause.thread_id <> other.thread_id
ASOF INNER JOIN endpoint
    ON other.thread_id = endpoint.thread_id AND pause.resume_ns >= at_ns
WHERE at_ns > stop_ns AND at_ns >= resume_ns - 30_000
UNION
SELECT
    other.trace_id, other.thread_id, other.stop_ns, other.resume_ns, other.worker_thread_id,
    other.at_ns
FROM cause
INNER JOIN graph.possible_cause AS other USING (thread_id, resume_ns)
ANTI JOIN graph.thread_wait AS wait
    ON
        other.thread_id = wait.thread_id
        AND other.worker_thread_id = wait.worker_thread_id
        AND other.at_ns = wait.end_ns
WHERE
    NOT other.is_cause
    -- If waking takes longer than usual, time that passes is no less likely for threads that
    -- take turns.
    AND other.spread_ns <= cause.spread_ns
    * CASE
        WHEN other.worker_thread_id = other.thread_id AND resume_ns - cause.at_ns > 50_000
            THEN 8
        ELSE 2
    END
    -- Nothing that a thread did long before it stopped.
    AND (
        cause.worker_thread_id <> other.worker_thread_id
        OR other.at_ns >= resume_ns - 2 * greatest(resume_ns - cause.at_ns, usual_ns)
    )
UNION
SELECT pause.trace_id, pause.thread_id, stop_ns, resume_ns, worker_thread_id, signal_ns
FROM pause
INNER JOIN graph.signal_candidate AS other USING (trace_id, thread_id, stop_ns, resume_ns)
INNER JOIN steady USING (thread_id, worker_thread_id, name, is_end)
WHERE 2 * spread_ns <= rest_spread_ns
UNION
SELECT
    other.trace_id, thread_id, other.stop_ns, resume_ns, worker_thread_id, signal_ns
FROM cause
INNER JOIN graph.signal_candidate AS other USING (thread_id, resume_ns, worker_thread_id)
INNER JOIN steady USING (thread_id, worker_thread_id, name, is_end)
INNER JOIN graph.thread_order AS own USING (thread_id)
INNER JOIN graph.thread_order AS worker ON worker_thread_id = worker.thread_id
WHERE
    own.ordinal > worker.ordinal
    AND signal_ns <> at_ns
    AND steady.spread_ns <= 2 * cause.spread_ns
UNION
-- If that is not steady, at any time of twice as much before.
SELECT
    cause.trace_id, cause.thread_id, cause.stop_ns, resume_ns, worker_thread_id, endpoint.at_ns
FROM cause
INNER JOIN graph.thread_order AS own USING (thread_id)
INNER JOIN graph.thread_order AS worker ON worker_thread_id = worker.thread_id
ASOF INNER JOIN endpoint
    ON
        worker_thread_id = endpoint.thread_id
        AND greatest(cause.stop_ns, cause.at_ns - 2 * spread_ns) < endpoint.at_ns
WHERE
    own.ordinal > worker.ordinal
    AND spread_ns > 10_000
    AND endpoint.at_ns < cause.at_ns;
