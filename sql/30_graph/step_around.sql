-- The step of one node, as in `graph.node_step`.
-- One row per node: the queried one.
-- Key: node_id.
CREATE MACRO graph.step_around(
    -- The node.
    node
) AS TABLE
SELECT
    -- The node.
    node_id,
    -- The trace.
    trace_id,
    -- Its step; NULL if it is in none.
    step_id,
    -- [ns] Start of the step.
    start_ns,
    -- [ns] End of the step.
    end_ns
FROM (
    SELECT asked.node_id, asked.trace_id, step.step_id, step.start_ns, step.end_ns
    FROM graph.node AS asked
    LEFT JOIN graph.node_step AS node_step ON asked.node_id = node_step.node_id
    LEFT JOIN staging.step AS step ON node_step.step_id = step.step_id
    WHERE asked.node_id = node
);
