-- What follows the last computation of a stage in a step, in order: garbage collection,
-- collectives, the optimizer.
-- One row per pair of consecutive operations.
-- Key: run_id, stage, source, node.
CREATE VIEW graph.pipeline_finish (
    -- The run.
    run_id,
    -- Pipeline stage.
    stage,
    -- The first operation: its type, and its ordinal within the type.
    source,
    -- The waiting operation, likewise.
    node,
    -- `finish`, as in `graph.pipeline_edge`.
    kind
) AS
WITH
operation AS (
    SELECT *, {'type': type, 'ordinal': ordinal} AS node
    FROM graph.pipeline_operation
),

-- Gradients are reduced during other computation if some have their own reduction.
job AS (
    SELECT run_id, bool_or(type = 'separate-grads-all-reduce') AS is_overlapped
    FROM operation
    GROUP BY run_id
),

finishing AS (
    SELECT run_id, stage, tail, ordinal, node
    FROM operation
    INNER JOIN job USING (run_id)
    WHERE
        tail IS NOT NULL
        AND NOT (is_overlapped AND type = 'grads-reduce-scatter')
        AND NOT (
            type = 'embedding-grads-all-reduce'
            AND stage_position NOT IN (0, stage_count - 1)
        )
    UNION ALL
    SELECT run_id, stage, 0, 0, max_by(node, end_ns)
    FROM operation
    WHERE kind = 'compute'
    GROUP BY run_id, stage
)

SELECT
    run_id,
    stage,
    lag(node) OVER (PARTITION BY run_id, stage ORDER BY tail, ordinal) AS source,
    node,
    'finish' AS kind
FROM finishing
QUALIFY source IS NOT NULL
UNION ALL
-- The last overlapped reduction ends before everything except the garbage collection.
SELECT run_id, stage, source, node, 'finish'
FROM (
    SELECT run_id, stage, min_by(node, [tail, ordinal]) AS node
    FROM finishing
    WHERE tail > 1
    GROUP BY run_id, stage
)
INNER JOIN (
    SELECT run_id, stage, max_by(node, ordinal) AS source
    FROM operation
    INNER JOIN job USING (run_id)
    WHERE is_overlapped AND type = 'grads-reduce-scatter'
    GROUP BY run_id, stage
) USING (run_id, stage);
