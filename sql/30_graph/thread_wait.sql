-- Times in which a thread does nothing while the autograd thread works for it, up to the
-- end of the work that lets it go on. Inferred from the idle gap alone.
-- One row per wait of a thread.
-- Key: thread_id, start_ns.
CREATE TABLE graph.thread_wait (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Thread that waits.
    thread_id,
    -- Thread that works meanwhile.
    worker_thread_id,
    -- [ns] Begin of the wait: when the worker begins, or the waiting thread stops.
    start_ns,
    -- [ns] End of the worker's last activity before the waiting thread goes on.
    end_ns,
    -- Last activity of the waiting thread before.
    before_node_id,
    -- First activity of the worker, if the gap woke it; NULL if it was at work already.
    first_node_id,
    -- Last activity of the worker.
    last_node_id,
    -- First activity of the waiting thread after.
    after_node_id
) AS
WITH
gap AS (
    SELECT
        activity.run_id,
        activity.trace_id,
        thread.pid,
        activity.thread_id,
        activity.node_id AS after_node_id,
        lag(activity.node_id) OVER lane AS before_node_id,
        activity.previous_end_ns AS gap_start_ns,
        activity.start_ns AS gap_end_ns
    FROM graph.activity
    INNER JOIN staging.thread USING (trace_id, thread_id)
    WHERE thread.role <> 'autograd'
    WINDOW lane AS (PARTITION BY activity.thread_id ORDER BY activity.start_ns, activity.end_ns)
),

work AS (
    SELECT
        activity.*,
        thread.pid
    FROM graph.activity
    INNER JOIN staging.thread USING (trace_id, thread_id)
    WHERE thread.role = 'autograd'
),

worker AS (
    SELECT DISTINCT trace_id, pid, thread_id AS worker_thread_id FROM work
),

candidate AS (
    SELECT gap.*, worker_thread_id
    FROM gap
    INNER JOIN worker USING (trace_id, pid)
    -- A shorter gap holds no backward pass: waking a thread alone takes that long.
    WHERE gap_end_ns - gap_start_ns >= 20_000
),

-- The worker begins in the gap (it was woken), or was at work already.
opened AS (
    SELECT
        candidate.*,
        coalesce(first.previous_end_ns <= gap_start_ns, true) AS is_woken,
        CASE WHEN is_woken THEN first.node_id END AS first_node_id,
        CASE WHEN is_woken THEN first.start_ns ELSE gap_start_ns END AS start_ns
    FROM candidate
    ASOF INNER JOIN work AS first
        ON
            candidate.worker_thread_id = first.thread_id
            AND candidate.gap_start_ns <= first.start_ns
    WHERE first.start_ns < gap_end_ns
)

SELECT
    opened.run_id,
    opened.trace_id,
    opened.thread_id,
    worker_thread_id,
    opened.start_ns,
    last.end_ns,
    before_node_id,
    first_node_id,
    last.node_id AS last_node_id,
    after_node_id
FROM opened
ASOF INNER JOIN work AS last
    ON opened.worker_thread_id = last.thread_id AND opened.gap_end_ns >= last.end_ns
WHERE (last.end_ns - opened.start_ns) * 2 >= gap_end_ns - gap_start_ns
QUALIFY row_number() OVER (
    PARTITION BY opened.thread_id, after_node_id ORDER BY last.end_ns - opened.start_ns DESC
) = 1;
