-- What waits for what?
-- One row per run, waiting call, work or thread, and what it waited for.
-- Key: run_id, kind, waiting_name, awaited_name.
CREATE VIEW question.wait (
    -- The run.
    run_id,
    -- Kind of dependency, as in `graph.edge`.
    kind,
    -- Name of the call or GPU work that waited, or of what the thread did next.
    waiting_name,
    -- Name of what it waited for: GPU work, or what another thread or rank did.
    awaited_name,
    -- Waits.
    wait_count,
    -- [ns] Time waited: blocked in calls, or the delay of GPU work beyond what launch and
    -- stream explain.
    waited_ns
) AS
WITH
wait AS (
    SELECT
        host_wait.run_id,
        graph.wait_kind(host_wait.target) AS kind,
        call.name AS waiting_name,
        gpu_op_id AS awaited_id,
        host_wait.end_ns - host_wait.start_ns AS waited_ns
    FROM graph.host_wait
    INNER JOIN staging.call AS call USING (call_id)
    WHERE is_blocked
    UNION ALL
    SELECT
        stream_wait.run_id,
        reason,
        work.name,
        awaited_gpu_op_id AS awaited_id,
        greatest(excess_ns, 0)
    FROM graph.stream_wait
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
),

named AS (
    SELECT wait.* EXCLUDE (awaited_id), work.name AS awaited_name
    FROM wait
    INNER JOIN staging.gpu_op AS work ON awaited_id = work.gpu_op_id
    UNION ALL
    SELECT
        thread_wait.run_id, thread_wait.kind, event.name, thread_wait.end_ns - thread_wait.start_ns,
        last.name
    FROM graph.thread_wait AS thread_wait
    INNER JOIN graph.node AS event ON after_node_id = event.node_id
    INNER JOIN graph.node AS last ON last_node_id = last.node_id
    WHERE thread_wait.kind = 'join'
    UNION ALL
    SELECT
        rank_wait.run_id, 'collective', op.name, rank_wait.end_ns - rank_wait.start_ns,
        awaited.name
    FROM graph.rank_wait AS rank_wait
    INNER JOIN staging.op AS op ON rank_wait.op_id = op.op_id
    INNER JOIN staging.op AS awaited ON awaited_op_id = awaited.op_id
)

SELECT run_id, kind, waiting_name, awaited_name, count(*), sum(waited_ns)::BIGINT
FROM named
GROUP BY run_id, kind, waiting_name, awaited_name
ORDER BY run_id, sum(waited_ns) DESC, kind, waiting_name, awaited_name;
