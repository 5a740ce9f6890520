-- On which collective what was measured last depended within its trace: the first that a walk
-- backwards along the causes comes to.
-- One row per node of a walk that depends on a collective.
-- Key: trace_id, node.
CREATE VIEW critical_path.collective_before (
    -- The trace.
    trace_id,
    -- The GPU op, or minus the `resume_id` (`graph.host_cause`), as in `critical_path.cause`.
    node,
    -- The kernel of the collective.
    collective_id
) AS
WITH RECURSIVE
caused AS MATERIALIZED (
    SELECT trace_id, node, cause_node
    FROM critical_path.cause
    WHERE NOT is_run AND cause_node IS NOT NULL
),

-- Each round looks twice as far as the one before, until there is a collective.
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
