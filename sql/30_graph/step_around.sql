-- The step of a node: that in which it begins, of GPU work that in which its launch begins;
-- of several steps around it the latest begun.
-- One row per node: the one that is asked about.
-- Key: node_id.
CREATE MACRO graph.step_around(
    -- The node.
    node
) AS TABLE
SELECT
    -- The node.
    node_id,
    -- The trace it is from.
    trace_id,
    -- Its step; NULL if it lies in none.
    step_id,
    -- [ns] Begin of the step.
    start_ns,
    -- [ns] End of the step.
    end_ns
FROM (
    SELECT
        asked.node_id,
        asked.trace_id,
        mark.step_id,
        mark.start_ns,
        mark.end_ns
    FROM graph.node AS asked
    LEFT JOIN staging.gpu_op AS work ON asked.node_id = work.gpu_op_id
    LEFT JOIN staging.call AS launch ON work.call_id = launch.call_id
    LEFT JOIN staging.step AS mark
        ON
            asked.trace_id = mark.trace_id
            AND coalesce(launch.start_ns, asked.start_ns) >= mark.start_ns
            AND coalesce(launch.start_ns, asked.start_ns) < mark.end_ns
    WHERE asked.node_id = node
    ORDER BY mark.start_ns DESC NULLS LAST, mark.step_id
    LIMIT 1
);
