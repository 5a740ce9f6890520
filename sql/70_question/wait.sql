-- What waits for what?
-- One row per run, waiting call or work, and what it waited for.
-- Key: run_id, kind, waiting_name, awaited_name.
CREATE VIEW question.wait (
    -- The run.
    run_id,
    -- Kind of the dependency, as in `graph.edge`.
    kind,
    -- Name of the call or the GPU work that waited.
    waiting_name,
    -- Name of the GPU work that it waited for.
    awaited_name,
    -- Waits.
    wait_count,
    -- [ns] Time waited: blocked in calls, or of GPU work later than launch and stream explain.
    waited_ns
) AS
WITH
wait AS (
    SELECT
        host_wait.run_id,
        graph.wait_kind(host_wait.target) AS kind,
        call.name AS waiting_name,
        gpu_op_id AS awaited_gpu_op_id,
        host_wait.end_ns - host_wait.start_ns AS waited_ns
    FROM graph.host_wait
    INNER JOIN staging.call AS call USING (call_id)
    WHERE is_blocked
    UNION ALL
    SELECT
        stream_wait.run_id,
        reason,
        work.name,
        awaited_gpu_op_id,
        greatest(excess_ns, 0)
    FROM graph.stream_wait
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
)

SELECT
    wait.run_id,
    wait.kind,
    waiting_name,
    awaited.name,
    count(*),
    sum(waited_ns)::BIGINT
FROM wait
INNER JOIN staging.gpu_op AS awaited ON wait.awaited_gpu_op_id = awaited.gpu_op_id
GROUP BY wait.run_id, wait.kind, waiting_name, awaited.name
ORDER BY wait.run_id, sum(waited_ns) DESC, wait.kind, waiting_name, awaited.name;
