-- How much longer each node could take, anywhere in it, without delaying the end of a step;
-- in a trace without steps, of the trace. It is 0 on the critical path of a step. A delay
-- propagates along the measured causes; where something else was the cause, the time until
-- then may absorb it first. Waits that found their work over absorb it only until they
-- would wait, also those of threads for each other (`graph.ready_wait`).
-- One row per op, call and GPU op.
-- Key: node_id.
CREATE TABLE critical_path.slack (
    -- The node.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Slack; NULL if no step depends on it.
    slack_ns
) AS
WITH
-- The minimum over what continues at a time or later within the stretch of the thread.
going_on AS (
    SELECT
        host_successor.trace_id,
        thread_id,
        at_ns,
        min(
            host_successor.slack_ns + CASE WHEN kind = 'end' THEN 0 ELSE target.slack_ns END
        ) OVER (
            PARTITION BY thread_id, resume_id ORDER BY at_ns DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS slack_ns
    FROM critical_path.host_successor
    LEFT JOIN critical_path.stream_stretch AS work
        ON target_gpu_op_id = work.gpu_op_id AND kind = 'launch'
    LEFT JOIN critical_path.stretch_slack AS target
        ON
            host_successor.trace_id = target.trace_id
            AND coalesce(target_thread_id, work.lane) = target.lane
            AND coalesce(target_resume_id, target_gpu_op_id) = target.stretch
    QUALIFY row_number() OVER (PARTITION BY thread_id, at_ns ORDER BY kind) = 1
),

least_inside AS (
    SELECT node_id, min(slack_ns) AS slack_ns
    FROM critical_path.inner_stretch AS inner_stretch
    INNER JOIN critical_path.stretch_slack AS after
        ON
            inner_stretch.trace_id = after.trace_id
            AND thread_id = after.lane
            AND resume_id = after.stretch
    GROUP BY node_id
),

host AS (
    SELECT op_id AS node_id, run_id, trace_id, thread_id, start_ns FROM staging.op
    UNION ALL
    SELECT call_id, run_id, trace_id, thread_id, start_ns FROM staging.call
)

SELECT
    host.node_id, host.run_id, host.trace_id, least(going_on.slack_ns, least_inside.slack_ns)
FROM host
ASOF LEFT JOIN going_on ON host.thread_id = going_on.thread_id AND host.start_ns <= going_on.at_ns
LEFT JOIN least_inside ON host.node_id = least_inside.node_id
UNION ALL
SELECT
    work.gpu_op_id, work.run_id, work.trace_id, stretch.slack_ns + last.slack_ns
FROM graph.stream_position AS work
LEFT JOIN critical_path.stream_stretch AS stretch USING (gpu_op_id)
LEFT JOIN critical_path.stretch_slack AS last
    ON
        stretch.trace_id = last.trace_id
        AND stretch.lane = last.lane
        AND stretch.last_gpu_op_id = last.stretch;
