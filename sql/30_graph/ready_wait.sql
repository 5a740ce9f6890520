-- What threads need from each other each time, whether they had to wait for it or not: most
-- waits that were over before they began leave nothing in a trace, but something may come to
-- wait if it changes. Most follow from the waits that are seen (`graph.thread_passage`), and
-- include these. A thread for whose results another one waits starts its
-- next part only when they are taken, if it always started soon after that, however late.
-- If no thread is ever seen to wait for a thread that another one wakes, it is assumed that
-- its last part is over when that one wakes it again.
-- One row per time at which a thread starts what needs another one.
-- Key: thread_id, resume_ns, worker_thread_id.
CREATE TABLE graph.ready_wait (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The thread that waits, if it has to.
    thread_id,
    -- The thread it waits for.
    worker_thread_id,
    -- [ns] When that thread had done its part.
    ready_ns,
    -- [ns] When this one started what needs it.
    resume_ns,
    -- [ns] Minimum time between the two: that after waits that are seen.
    lag_ns,
    -- Whether this one started as soon as that allowed.
    is_bound,
    -- Whether no wait for that thread is seen at all.
    is_assumed
) AS
WITH
-- A thread that starts its next part when another one has taken the last.
turn AS (
    SELECT
        run_id,
        trace_id,
        worker_thread_id AS thread_id,
        passage.thread_id AS worker_thread_id,
        resume_ns AS ready_ns,
        next_start_ns AS resume_ns,
        median(next_start_ns - resume_ns) OVER of_pair AS lag_ns
    FROM graph.thread_passage AS passage
    ANTI JOIN graph.thread_passage AS reverse
        ON
            passage.thread_id = reverse.worker_thread_id
            AND passage.worker_thread_id = reverse.thread_id
    WHERE kind = 'join' AND is_end AND next_start_ns IS NOT NULL
    WINDOW of_pair AS (PARTITION BY passage.thread_id, worker_thread_id)
    QUALIFY
        count(*) OVER of_pair >= 3
        AND min(next_start_ns - resume_ns) OVER of_pair > 0
        AND median(next_start_ns - resume_ns) OVER of_pair <= 100_000
        AND count_if(NOT is_seen AND next_start_ns - resume_ns <= 100_000) OVER of_pair > 0
),

-- Parts of threads that are woken, and that no thread is seen to wait for.
part AS (
    SELECT passage.*, previous_end_ns
    FROM graph.thread_passage AS passage
    INNER JOIN graph.top_level_event ON after_node_id = node_id
    WHERE
        kind = 'fork'
        AND passage.thread_id NOT IN (SELECT worker_thread_id FROM graph.thread_wait)
        AND passage.thread_id NOT IN (SELECT worker_thread_id FROM turn)
),

-- The thread that wakes them, directly or through a third.
waker AS (
    SELECT
        part.run_id,
        part.trace_id,
        part.thread_id AS worker_thread_id,
        coalesce(first.worker_thread_id, part.worker_thread_id) AS thread_id,
        coalesce(first.end_ns, ready_ns) AS signal_ns
    FROM part
    LEFT JOIN graph.thread_wait AS first
        ON
            part.worker_thread_id = first.thread_id
            AND first.kind = 'fork'
            AND first.worker_thread_id <> part.thread_id
            AND first.end_ns <= ready_ns
    QUALIFY row_number() OVER (
        PARTITION BY part.thread_id, resume_ns
        ORDER BY first.end_ns DESC, first.worker_thread_id
    ) = 1
),

taken AS (
    SELECT waker.*, start_ns AS resume_ns
    FROM waker
    ASOF INNER JOIN graph.top_level_event AS event
        ON waker.thread_id = event.thread_id AND signal_ns <= start_ns
),

assumed AS (
    SELECT
        taken.run_id, taken.trace_id, taken.thread_id, taken.worker_thread_id,
        previous_end_ns AS ready_ns, taken.resume_ns, usual.lag_ns
    FROM taken
    ASOF INNER JOIN part
        ON
            taken.worker_thread_id = part.thread_id
            AND taken.resume_ns > part.previous_end_ns
    INNER JOIN (
        SELECT trace_id, median(lag_ns) AS lag_ns FROM graph.thread_passage GROUP BY trace_id
    ) AS usual ON taken.trace_id = usual.trace_id
),

found AS (
    SELECT
        run_id, trace_id, thread_id, worker_thread_id, ready_ns, resume_ns,
        -- Times in old files are whole microseconds.
        is_seen OR resume_ns - ready_ns <= lag_ns + 1_000 AS is_bound,
        CASE WHEN is_bound THEN resume_ns - ready_ns ELSE lag_ns END AS lag_ns,
        false AS is_assumed
    FROM graph.thread_passage
    UNION ALL BY NAME
    SELECT *, false AS is_bound, false AS is_assumed FROM turn
    UNION ALL BY NAME
    SELECT *, false AS is_bound, true AS is_assumed FROM assumed
)

-- Of several for one thread, the last to be ready.
SELECT
    run_id,
    trace_id,
    thread_id,
    worker_thread_id,
    ready_ns,
    resume_ns,
    least(lag_ns, resume_ns - ready_ns)::BIGINT AS lag_ns,
    is_bound,
    is_assumed
FROM found
QUALIFY row_number() OVER (
    PARTITION BY thread_id, resume_ns, worker_thread_id ORDER BY ready_ns DESC, is_bound DESC
) = 1;
