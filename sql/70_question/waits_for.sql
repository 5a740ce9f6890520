-- What does a node wait for? For an op: the waits of the calls in it, also in nested ops;
-- of the GPU work that these launched; and of its thread before it continues after other
-- threads. For a call or GPU work: its own wait. For a user range: the waits of everything
-- that starts in it on its thread.
-- One row per wait: at most one per call or thread; for GPU work, the last to end of what
-- it waited for.
-- Key: waiting_node_id, kind.
CREATE MACRO question.waits_for(
    -- The op, call, GPU work or user range that waits.
    node
) AS TABLE
SELECT
    -- The call or GPU work that waited; for `join`, the first top-level event of a thread
    -- after its wait.
    waiting_node_id,
    -- Its name.
    waiting_name,
    -- Kind of dependency, as in `graph.edge`.
    kind,
    -- [ns] Start of the wait: of the call, or of the thread's idle time; for GPU work, the
    -- time at which it could have started otherwise.
    start_ns,
    -- [ns] Time waited: blocked in the call, idle, or later than launch and stream explain.
    -- 0 if what it waited for had ended before.
    waited_ns,
    -- The GPU work that it waited for; for `join`, the last top-level event of the other
    -- thread.
    awaited_node_id,
    -- Its name.
    awaited_name,
    -- Innermost op that launched the awaited work, if it is in the trace.
    awaited_op_id,
    -- Its name.
    awaited_op_name,
    -- Whether the trace records what it waited for; otherwise it is inferred.
    recorded
FROM (
    WITH RECURSIVE
    user_range AS (
        SELECT thread_id, start_ns, end_ns
        FROM staging.annotation
        WHERE annotation_id = node
    ),

    op_below AS (
        SELECT op_id FROM staging.op WHERE op_id = node
        UNION
        SELECT staging.op.op_id
        FROM op_below
        INNER JOIN staging.op ON op_below.op_id = staging.op.parent_op_id
    ),

    call AS MATERIALIZED (
        SELECT call_id, name
        FROM staging.call
        WHERE call_id = node OR op_id IN (FROM op_below)
        UNION
        SELECT call_id, name
        FROM staging.call
        INNER JOIN user_range
            ON
                staging.call.thread_id = user_range.thread_id
                AND staging.call.start_ns >= user_range.start_ns
                AND staging.call.start_ns < user_range.end_ns
    ),

    work AS (
        SELECT gpu_op_id, name
        FROM staging.gpu_op
        WHERE gpu_op_id = node OR call_id IN (SELECT call_id FROM call)
    ),

    joined AS (
        SELECT thread_wait.*
        FROM graph.thread_wait AS thread_wait
        LEFT JOIN user_range
            ON
                thread_wait.thread_id = user_range.thread_id
                AND thread_wait.end_ns >= user_range.start_ns
                AND thread_wait.end_ns < user_range.end_ns
        WHERE
            kind = 'join'
            AND (
                user_range.thread_id IS NOT NULL
                OR after_node_id = node
                OR after_node_id IN (FROM op_below)
            )
    ),

    found AS (
        SELECT
            call.call_id AS waiting_node_id,
            call.name AS waiting_name,
            graph.wait_kind(host_wait.target) AS kind,
            host_wait.start_ns,
            CASE WHEN is_blocked THEN host_wait.end_ns - host_wait.start_ns ELSE 0 END
            AS waited_ns,
            host_wait.gpu_op_id AS awaited_node_id,
            recorded
        FROM graph.host_wait
        INNER JOIN call ON host_wait.call_id = call.call_id
        UNION ALL
        SELECT
            work.gpu_op_id, work.name,
            reason,
            stream_wait.start_ns - greatest(excess_ns, 0), greatest(excess_ns, 0),
            awaited_gpu_op_id, recorded
        FROM graph.stream_wait
        INNER JOIN work ON stream_wait.gpu_op_id = work.gpu_op_id
        UNION ALL
        SELECT
            after_node_id, after_node.name, 'join',
            joined.start_ns, joined.end_ns - joined.start_ns, last_node_id, false
        FROM joined
        INNER JOIN graph.node AS after_node ON joined.after_node_id = after_node.node_id
    )

    SELECT
        found.*,
        awaited.name AS awaited_name,
        awaiting.op_id AS awaited_op_id,
        awaiting.name AS awaited_op_name
    FROM found
    INNER JOIN graph.node AS awaited ON found.awaited_node_id = awaited.node_id
    LEFT JOIN staging.gpu_op ON found.awaited_node_id = staging.gpu_op.gpu_op_id
    LEFT JOIN staging.op AS awaiting ON staging.gpu_op.op_id = awaiting.op_id
)
ORDER BY start_ns, waiting_node_id;
