-- What does GPU work delay? Calls that were blocked until it ended, GPU work that started
-- after it because of it (`graph.gpu_cause`), and what these delay in turn, including GPU
-- work that was launched late because its thread continued only then (`graph.host_cause`).
-- Within the step of its launch, or its trace if the launch is in no step.
-- One row per call, GPU work or top-level event that is delayed.
-- Key: node_id, kind.
CREATE MACRO question.delays(
    -- The GPU work that delays them.
    node
) AS TABLE
SELECT
    -- What is delayed: GPU work, the call that was blocked (`return`), or the first
    -- top-level event of a thread after it waited for another (`join`) or was woken
    -- (`fork`).
    node_id,
    -- Its name.
    name,
    -- Why: `stream`, `stream_wait`, `launch`, `return`, `join` or `fork`.
    kind,
    -- Number of causes in between, including the last: 1 is delayed by the work itself.
    hop,
    -- The node through which it is delayed, one hop closer.
    previous_node_id,
    -- [ns] Time at which that node let it continue: end of GPU work or of a wait, start of
    -- a launch.
    cause_ns,
    -- [ns] Its start.
    start_ns,
    -- [ns] Its end.
    end_ns,
    -- [ns] How long it had to wait: blocked in the call, from the start of the launch until
    -- the cause, or with the thread idle; NULL for `launch` and `fork`.
    waited_ns
FROM (
    WITH RECURSIVE
    scope AS MATERIALIZED (FROM graph.step_around(node)),

    gpu AS (
        SELECT
            work.gpu_op_id,
            gpu_cause.cause,
            before.cause_node AS source,
            gpu_cause.cause_ns,
            CASE
                WHEN cause <> 'launch'
                    THEN greatest(gpu_cause.cause_ns - work.launch_start_ns, 0)
            END AS waited_ns
        FROM graph.stream_position AS work
        INNER JOIN graph.gpu_cause ON work.gpu_op_id = gpu_cause.gpu_op_id
        INNER JOIN scope
            ON
                work.trace_id = scope.trace_id
                AND coalesce(work.launch_start_ns >= scope.start_ns, true)
                AND coalesce(work.launch_start_ns < scope.end_ns, true)
        INNER JOIN critical_path.cause AS before
            ON
                work.trace_id = before.trace_id
                AND work.gpu_op_id = before.node
                AND NOT is_run
    ),

    host AS (
        SELECT
            coalesce(host_cause.call_id, resumed_wait.after_node_id) AS node_id,
            resume_id,
            cause,
            coalesce(cause_gpu_op_id, -cause_resume_id) AS source,
            coalesce(gpu_op_end_ns, resume_ns) AS cause_ns,
            coalesce(
                host_wait.end_ns - host_wait.start_ns,
                CASE cause WHEN 'join' THEN resumed_wait.end_ns - resumed_wait.start_ns END
            ) AS waited_ns
        FROM graph.host_cause
        INNER JOIN scope
            ON
                host_cause.trace_id = scope.trace_id
                AND coalesce(resume_ns >= scope.start_ns, true)
                AND coalesce(resume_ns < scope.end_ns, true)
                AND cause <> 'arrival'
        LEFT JOIN graph.host_wait ON host_cause.call_id = host_wait.call_id
        LEFT JOIN graph.thread_wait AS resumed_wait
            ON
                cause = resumed_wait.kind
                AND host_cause.thread_id = resumed_wait.thread_id
                AND cause_thread_id = resumed_wait.worker_thread_id
                AND resume_ns = resumed_wait.end_ns
    ),

    link AS MATERIALIZED (
        SELECT gpu_op_id AS target, source, gpu_op_id AS node_id, cause, cause_ns, waited_ns
        FROM gpu
        UNION ALL
        SELECT -resume_id, source, node_id, cause, cause_ns, waited_ns
        FROM host
    ),

    -- Everything has one cause, so it is reached once.
    walk AS (
        SELECT link.*, 1::BIGINT AS hop, source AS previous_node_id
        FROM link
        WHERE source = node
        UNION ALL
        SELECT link.*, hop + 1, walk.node_id
        FROM walk
        INNER JOIN link ON walk.target = link.source
    )

    SELECT
        walk.node_id,
        any_value(graph.node.name) AS name,
        walk.cause AS kind,
        min(hop) AS hop,
        arg_min(previous_node_id, (hop, previous_node_id)) AS previous_node_id,
        min(walk.cause_ns) AS cause_ns,
        any_value(graph.node.start_ns) AS start_ns,
        any_value(graph.node.end_ns) AS end_ns,
        max(waited_ns) AS waited_ns
    FROM walk
    INNER JOIN graph.node ON walk.node_id = graph.node.node_id
    GROUP BY walk.node_id, walk.cause
)
ORDER BY hop, cause_ns, node_id;
