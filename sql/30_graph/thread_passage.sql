-- What a thread needs from another one each time, if it waits for it at the same place again
-- and again (`graph.thread_wait`): the k-th start of an op on one thread needs the k-th end
-- (or start) of an op on the other, a constant number of items apart, as in a queue. The
-- order of all these pairs has to agree; most of the waits are at that place.
-- One row per pair of threads and time.
-- Key: thread_id, worker_thread_id, resume_ns.
CREATE TABLE graph.thread_passage (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The thread that waits, if it has to.
    thread_id,
    -- The thread it waits for.
    worker_thread_id,
    -- `join` or `fork`, as in `graph.thread_wait`.
    kind,
    -- The event that starts on the first thread.
    after_node_id,
    -- [ns] When the other thread had done its part.
    ready_ns,
    -- [ns] When this one started what needs it.
    resume_ns,
    -- [ns] Median time between the two where a wait is seen.
    lag_ns,
    -- Whether that part ended then; otherwise it started.
    is_end,
    -- [ns] Start of the other thread's next event after that.
    next_start_ns,
    -- Whether a wait is seen.
    is_seen
) AS
WITH
seen_wait AS (
    SELECT DISTINCT wait.*
    FROM graph.thread_wait AS wait
    ANTI JOIN graph.collective_call AS call
        ON call.thread_id IN (wait.thread_id, worker_thread_id)
),

event AS (
    SELECT
        event.thread_id,
        node_id,
        event.start_ns,
        event.end_ns,
        name,
        concat(lag(name) OVER on_thread, chr(10), name) AS start_name,
        concat(name, chr(10), lead(name) OVER on_thread) AS end_name,
        lead(event.start_ns) OVER on_thread AS next_start_ns
    FROM graph.top_level_event AS event
    INNER JOIN graph.node USING (trace_id, node_id)
    WHERE event.thread_id IN (
        SELECT unnest([thread_id, worker_thread_id]) FROM seen_wait
    )
    WINDOW on_thread AS (PARTITION BY event.thread_id ORDER BY event.start_ns, node_id)
),

-- Those with a name at which a wait is seen; all others are many times as many.
waited AS (
    FROM event
    SEMI JOIN (
        SELECT thread_id, name
        FROM event
        SEMI JOIN seen_wait AS wait ON node_id = wait.after_node_id
        UNION ALL
        SELECT part.thread_id, name
        FROM (
            SELECT thread_id, name, unnest([start_ns, end_ns]) AS at_ns FROM event
        ) AS part
        SEMI JOIN seen_wait AS wait
            ON part.thread_id = worker_thread_id AND at_ns = wait.end_ns
    ) USING (thread_id, name)
),

-- Starts and ends of ops, numbered on their thread among those of the name, and among those
-- with the same neighbour on the far side.
point AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY thread_id, is_start, key ORDER BY at_ns, node_id
        ) AS ordinal
    FROM (
        SELECT
            thread_id, node_id, true AS is_start, start_ns AS at_ns,
            unnest([name, start_name]) AS key, start_ns AS next_start_ns
        FROM waited
        UNION ALL
        SELECT
            thread_id, node_id, false, end_ns, unnest([name, end_name]), next_start_ns
        FROM waited
    )
),

-- Between which points waits are seen, and how many items apart.
place AS (
    SELECT
        any_value(wait.run_id) AS run_id,
        any_value(wait.trace_id) AS trace_id,
        wait.thread_id,
        worker_thread_id,
        any_value(wait.kind) AS kind,
        source.is_start,
        source.key AS source_key,
        target.key AS target_key,
        target.ordinal - source.ordinal AS ahead,
        count(*) AS seen_count,
        median(target.at_ns - source.at_ns)::BIGINT AS lag_ns
    FROM seen_wait AS wait
    INNER JOIN point AS target ON after_node_id = target.node_id AND target.is_start
    INNER JOIN point AS source
        ON worker_thread_id = source.thread_id AND wait.end_ns = source.at_ns
    GROUP BY
        wait.thread_id, worker_thread_id, source.is_start, source_key, target_key, ahead
),

all_seen AS (
    SELECT thread_id, worker_thread_id, count(*) AS wait_count
    FROM seen_wait
    GROUP BY thread_id, worker_thread_id
),

usual AS (
    SELECT place.*
    FROM place
    INNER JOIN all_seen USING (thread_id, worker_thread_id)
    WHERE seen_count >= 2 AND 2 * seen_count > wait_count
    QUALIFY row_number() OVER (
        PARTITION BY thread_id, worker_thread_id
        ORDER BY
            seen_count DESC, is_start, length(source_key) + length(target_key), source_key,
            target_key, ahead
    ) = 1
)

SELECT
    usual.run_id,
    usual.trace_id,
    usual.thread_id,
    usual.worker_thread_id,
    usual.kind,
    target.node_id AS after_node_id,
    source.at_ns AS ready_ns,
    target.at_ns AS resume_ns,
    usual.lag_ns,
    NOT usual.is_start AS is_end,
    source.next_start_ns,
    seen.after_node_id IS NOT NULL AS is_seen
FROM usual
INNER JOIN point AS source
    ON
        usual.worker_thread_id = source.thread_id
        AND usual.is_start = source.is_start
        AND source_key = source.key
INNER JOIN point AS target
    ON
        usual.thread_id = target.thread_id
        AND target.is_start
        AND target_key = target.key
        AND source.ordinal + ahead = target.ordinal
LEFT JOIN (SELECT DISTINCT thread_id, worker_thread_id, after_node_id FROM seen_wait)
    AS seen
    ON
        usual.thread_id = seen.thread_id
        AND usual.worker_thread_id = seen.worker_thread_id
        AND target.node_id = seen.after_node_id
QUALIFY bool_and(source.at_ns < target.at_ns) OVER (
    PARTITION BY usual.thread_id, usual.worker_thread_id
);
