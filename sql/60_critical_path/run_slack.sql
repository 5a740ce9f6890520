-- How much longer each node of a run with several ranks could take, anywhere in it, without
-- delaying the end of a step of the run, which is on the last of its ranks. Unlike
-- `critical_path.slack`, it includes what waiting for other ranks absorbs: work before a
-- collective on GPUs may slip until the last rank arrives, and if other ranks wait for it,
-- only as far as those may.
-- One row per op, call and GPU op of a run whose ranks meet on GPUs (`run_trace`).
-- Key: node_id.
CREATE VIEW critical_path.run_slack (
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
in_run AS MATERIALIZED (SELECT trace_id FROM critical_path.run_trace),

stretch_slack AS MATERIALIZED (FROM critical_path.run_stretch_slack),

-- Start of what ends with the work: for a collective its own start, likewise for all other
-- work.
begun AS (
    SELECT
        stretch.*,
        CASE WHEN node_id IS NULL THEN last_gpu_op_id ELSE -last_gpu_op_id END AS begin_id,
        CASE WHEN node_id = gpu_op_id AND NOT is_eager THEN last_node_id END AS collective_id
    FROM critical_path.stream_stretch AS stretch
    SEMI JOIN in_run ON stretch.trace_id = in_run.trace_id
    LEFT JOIN graph.collective AS met ON last_gpu_op_id = node_id
),

-- The minimum over what continues at a time or later within the stretch of the thread.
going_on AS (
    SELECT
        successor.trace_id,
        successor.thread_id,
        at_ns,
        min(
            CASE
                WHEN kind = 'end' THEN run_end.slack_ns
                ELSE successor.slack_ns + target.slack_ns
            END
        ) OVER (
            PARTITION BY successor.thread_id, resume_id ORDER BY at_ns DESC
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS slack_ns
    FROM critical_path.host_successor AS successor
    SEMI JOIN in_run ON successor.trace_id = in_run.trace_id
    LEFT JOIN begun AS work ON target_gpu_op_id = work.gpu_op_id AND kind = 'launch'
    LEFT JOIN stretch_slack AS target
        ON
            successor.trace_id = target.trace_id
            AND coalesce(target_thread_id, work.lane) = target.lane
            AND coalesce(target_resume_id, begin_id) = target.stretch
    LEFT JOIN critical_path.run_end AS run_end
        ON
            kind = 'end'
            AND successor.trace_id = run_end.trace_id
            AND successor.thread_id = run_end.thread_id
            AND at_ns = end_ns
    QUALIFY row_number() OVER (PARTITION BY successor.thread_id, at_ns ORDER BY kind) = 1
),

least_inside AS (
    SELECT node_id, min(slack_ns) AS slack_ns
    FROM critical_path.inner_stretch AS inner_stretch
    INNER JOIN stretch_slack AS after
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
    host.node_id,
    host.run_id,
    host.trace_id,
    least(going_on.slack_ns, least_inside.slack_ns) AS slack_ns
FROM host
SEMI JOIN in_run ON host.trace_id = in_run.trace_id
ASOF LEFT JOIN going_on ON host.thread_id = going_on.thread_id AND host.start_ns <= going_on.at_ns
LEFT JOIN least_inside ON host.node_id = least_inside.node_id
UNION ALL
-- A collective that takes longer does so on all ranks, apart from sends that do not wait.
SELECT
    work.gpu_op_id, work.run_id, work.trace_id, stretch.slack_ns + place.slack_ns
FROM graph.stream_position AS work
SEMI JOIN in_run ON work.trace_id = in_run.trace_id
LEFT JOIN begun AS stretch USING (gpu_op_id)
LEFT JOIN stretch_slack AS place
    ON
        CASE WHEN collective_id IS NULL THEN stretch.trace_id ELSE 0 END = place.trace_id
        AND CASE WHEN collective_id IS NULL THEN stretch.lane ELSE 0 END = place.lane
        AND coalesce(
            collective_id,
            CASE WHEN work.gpu_op_id = last_gpu_op_id THEN last_gpu_op_id ELSE begin_id END
        ) = place.stretch;
