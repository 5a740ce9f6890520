-- What waits for what, and in which op and Python function?
-- One row per run, waiting call, work or thread, what it waited for, and place.
-- Key: run_id, kind, waiting_name, awaited_name, op, frame.
-- Counts: graph.host_wait, graph.stream_wait, graph.thread_wait, graph.lock_wait,
-- graph.rank_wait.
CREATE VIEW question.wait (
    -- The run.
    run_id,
    -- Kind of dependency, as in `graph.edge`.
    kind,
    -- Name of the call or GPU work that waited, or of what the thread did next.
    waiting_name,
    -- Name of what it waited for: GPU work, or what another thread or rank did last; of a thread
    -- whose ops are not recorded, the Python function.
    awaited_name,
    -- Waits.
    wait_count,
    -- [ns] Time waited: blocked in calls, or the delay of GPU work beyond what launch and
    -- stream explain.
    waited_ns,
    -- The innermost op in which the host waited, or that launched the work that waited; NULL
    -- outside of ops, and of threads and ranks.
    op,
    -- The Python function in which the host waited, with its file and line, as in
    -- `staging.python_frame`, if stacks were recorded.
    frame
) AS
WITH
wait AS (
    SELECT
        host_wait.run_id,
        graph.wait_kind(host_wait.target) AS kind,
        call.name AS waiting_name,
        gpu_op_id AS awaited_id,
        host_wait.end_ns - host_wait.start_ns AS waited_ns,
        call.op_id,
        open_frame.name AS frame
    FROM graph.host_wait
    INNER JOIN staging.call AS call USING (call_id)
    ASOF LEFT JOIN graph.open_frame AS open_frame
        ON call.thread_id = open_frame.thread_id AND call.start_ns >= open_frame.at_ns
    WHERE is_blocked
    UNION ALL
    SELECT
        stream_wait.run_id,
        reason,
        work.name,
        awaited_gpu_op_id AS awaited_id,
        greatest(excess_ns, 0),
        work.op_id,
        NULL
    FROM graph.stream_wait
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
),

-- Where Python stacks show a wait for another thread.
locked AS (
    SELECT lock_wait.*, open_frame.name
    FROM graph.lock_wait
    ASOF LEFT JOIN graph.open_frame AS open_frame
        ON lock_wait.thread_id = open_frame.thread_id AND lock_wait.start_ns >= open_frame.at_ns
),

named AS (
    SELECT
        wait.run_id, wait.kind, waiting_name, work.name AS awaited_name, waited_ns,
        op.name AS op, frame
    FROM wait
    INNER JOIN staging.gpu_op AS work ON awaited_id = work.gpu_op_id
    LEFT JOIN staging.op AS op ON wait.op_id = op.op_id
    UNION ALL
    SELECT
        thread_wait.run_id, thread_wait.kind, event.name, last.name,
        thread_wait.end_ns - thread_wait.start_ns, NULL, locked.name
    FROM graph.thread_wait AS thread_wait
    INNER JOIN graph.node AS event ON after_node_id = event.node_id
    INNER JOIN graph.node AS last ON last_node_id = last.node_id
    LEFT JOIN locked
        ON
            thread_wait.thread_id = locked.thread_id
            AND thread_wait.start_ns = locked.start_ns
    WHERE thread_wait.kind = 'join'
    UNION ALL
    SELECT
        locked.run_id, 'join', event.name, awaited_name, locked.end_ns - locked.start_ns, NULL,
        locked.name
    FROM locked
    ASOF INNER JOIN graph.top_level_event AS next
        ON locked.thread_id = next.thread_id AND locked.end_ns <= next.start_ns
    INNER JOIN graph.node AS event ON next.node_id = event.node_id
    WHERE worker_thread_id IS NULL
    UNION ALL
    SELECT
        rank_wait.run_id, 'collective', op.name, awaited.name,
        rank_wait.end_ns - rank_wait.start_ns, NULL, NULL
    FROM graph.rank_wait AS rank_wait
    INNER JOIN graph.node AS op ON rank_wait.op_id = op.node_id
    INNER JOIN graph.node AS awaited ON awaited_op_id = awaited.node_id
)

SELECT
    run_id, kind, waiting_name, awaited_name, count(*), sum(waited_ns)::BIGINT AS waited_ns, op,
    frame
FROM named
GROUP BY run_id, kind, waiting_name, awaited_name, op, frame
ORDER BY run_id, waited_ns DESC, kind, waiting_name, awaited_name, op, frame;
