-- The step of each node: the one in which it starts, or for GPU work in which its launch
-- starts; of several enclosing steps, the one that started last.
-- One row per node inside a step.
-- Key: node_id.
CREATE VIEW graph.node_step (
    -- The node.
    node_id,
    -- The trace.
    trace_id,
    -- The step.
    step_id
) AS
WITH
begun AS (
    SELECT
        node_id,
        node.trace_id,
        coalesce(launch.start_ns, node.start_ns) AS start_ns
    FROM graph.node AS node
    LEFT JOIN staging.gpu_op AS work ON node_id = gpu_op_id
    LEFT JOIN staging.call AS launch ON work.call_id = launch.call_id
),

-- For each stretch of time, the enclosing step that started last.
around AS (
    SELECT
        stretch.trace_id,
        stretch.start_ns,
        arg_max(step_id, (step.start_ns, -step_id)) AS step_id
    FROM (
        SELECT trace_id, start_ns, unnest(coalesce(step_ids, [NULL])) AS step_id
        FROM staging.step_stretch
    ) AS stretch
    LEFT JOIN staging.step AS step USING (step_id)
    GROUP BY stretch.trace_id, stretch.start_ns
)

SELECT node_id, begun.trace_id, step_id
FROM begun
ASOF INNER JOIN around
    ON begun.trace_id = around.trace_id AND begun.start_ns >= around.start_ns
WHERE step_id IS NOT NULL;
