-- The collective that each node last depended on within its trace: the first that a walk
-- backwards along the causes reaches. The walk reaches one on the CPU on the thread that
-- executed it.
-- One row per node of a walk, and collective on the CPU, that depends on a collective.
-- Key: trace_id, node.
CREATE VIEW critical_path.collective_before (
    -- The trace.
    trace_id,
    -- The GPU op, or minus the `resume_id` (`graph.host_cause`), as in `critical_path.cause`;
    -- or the op of a collective on the CPU.
    node,
    -- The kernel, or the op, of the collective.
    collective_id
) AS
WITH RECURSIVE
on_cpu AS MATERIALIZED (
    SELECT collective.trace_id, node_id, thread_id, collective.start_ns
    FROM staging.collective AS collective
    INNER JOIN staging.op AS op ON node_id = op_id
),

-- Where a walk follows a thread, and when it leaves it for something else.
along AS (
    SELECT cause.trace_id, node, cause_node, cause.thread_id, until_ns
    FROM critical_path.cause AS cause
    SEMI JOIN on_cpu ON cause.thread_id = on_cpu.thread_id
    WHERE NOT is_run
    UNION ALL
    SELECT on_cpu.trace_id, node_id, -resume_id, on_cpu.thread_id, start_ns
    FROM on_cpu
    ASOF LEFT JOIN graph.last_resume AS latest
        ON on_cpu.thread_id = latest.thread_id AND on_cpu.start_ns >= latest.resume_ns
),

reached_collective AS (
    SELECT
        along.trace_id,
        along.node,
        CASE
            WHEN on_cpu.start_ns >= resume.resume_ns OR resume.resume_ns IS NULL
                THEN on_cpu.node_id
        END AS collective_id,
        along.cause_node
    FROM along
    LEFT JOIN graph.host_cause AS resume
        ON along.trace_id = resume.trace_id AND along.cause_node = -resume.resume_id
    ASOF LEFT JOIN on_cpu
        ON along.thread_id = on_cpu.thread_id AND along.until_ns > on_cpu.start_ns
),

caused AS MATERIALIZED (
    SELECT trace_id, node, cause_node
    FROM critical_path.cause
    ANTI JOIN on_cpu USING (thread_id)
    WHERE NOT is_run AND cause_node IS NOT NULL
    UNION ALL
    SELECT trace_id, node, coalesce(collective_id, cause_node)
    FROM reached_collective
    WHERE collective_id IS NOT NULL OR cause_node IS NOT NULL
),

-- Each round looks twice as far as the previous one, until there is a collective.
leap (trace_id, node, cause_node) USING KEY (trace_id, node) AS (
    FROM caused
    UNION
    SELECT near.trace_id, near.node, further.cause_node
    FROM leap AS near
    INNER JOIN recurring.leap AS further
        ON near.trace_id = further.trace_id AND near.cause_node = further.node
    ANTI JOIN staging.collective AS collective ON near.cause_node = collective.node_id
)

SELECT trace_id, node, cause_node
FROM leap
SEMI JOIN staging.collective AS collective ON cause_node = collective.node_id;
