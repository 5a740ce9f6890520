-- What each operation of a data-parallel rank waits for in a step, the same in all ranks
-- and steps.
-- One row per pair of operations.
-- Key: run_id, source_stage, source_type, source_ordinal, stage, type, ordinal.
CREATE VIEW graph.pipeline_edge (
    -- The run.
    run_id,
    -- Stage of the first operation.
    source_stage,
    -- Its type.
    source_type,
    -- Ordinal of its type, from 0.
    source_ordinal,
    -- Stage of the waiting operation.
    stage,
    -- Its type.
    type,
    -- Ordinal of its type, from 0.
    ordinal,
    -- `order` (of a stream), `output` (computation to the operation that sends or reduces
    -- its result), `input` (receive or all-gather to the computation that needs it),
    -- `ahead` (a receive starts after the computation before that one), `pipeline`
    -- (computation to that of the next stage, if sends are not logged) or `finish` (what
    -- follows the last computation, in order).
    kind
) AS
WITH
operation AS (
    SELECT *, {'type': type, 'ordinal': ordinal} AS node
    FROM graph.pipeline_operation
),

compute AS (FROM operation WHERE kind = 'compute'),

-- Gradients are reduced during other computation if some have their own reduction.
job AS (
    SELECT
        run_id,
        bool_or(type = 'separate-grads-all-reduce') AS is_overlapped,
        bool_or(kind IN ('send', 'recv')) AS has_transfers
    FROM operation
    GROUP BY run_id
),

in_order AS (
    SELECT
        run_id,
        stage,
        lag(node) OVER (PARTITION BY run_id, stage, stream ORDER BY start_ns, type)
        AS source,
        node,
        'order' AS kind
    FROM operation
    WHERE stream IS NOT NULL
),

transfer AS (
    SELECT
        *,
        {'type': type, 'ordinal': ordinal} AS node,
        {'type': compute_type, 'ordinal': compute_ordinal} AS compute_node
    FROM graph.pipeline_transfer
),

of_transfer AS (
    SELECT run_id, stage, compute_node AS source, node, 'output' AS kind
    FROM transfer
    WHERE kind = 'send'
    UNION ALL
    SELECT run_id, stage, node, compute_node, 'input'
    FROM transfer
    WHERE kind = 'recv'
    UNION ALL
    SELECT
        run_id, stage, {'type': compute_type, 'ordinal': compute_ordinal - 1}, node, 'ahead'
    FROM transfer
    WHERE kind = 'recv' AND compute_ordinal > 0
),

-- The first backward send and receive: after the second to last computation before the
-- first backward one.
first_backward AS (
    SELECT run_id, stage, source, {'type': type, 'ordinal': 0} AS node, 'ahead' AS kind
    FROM (
        SELECT
            run_id,
            stage,
            direction,
            ordinal,
            lag(node, 2) OVER (PARTITION BY run_id, stage ORDER BY start_ns) AS source
        FROM compute
    )
    CROSS JOIN (VALUES ('backward-send'), ('backward-recv')) AS known (type)
    WHERE direction = 'backward' AND ordinal = 0 AND source IS NOT NULL
),

-- The parameters of a chunk are available before its first forward computation; its
-- gradients are complete after its last backward one.
of_chunk AS (
    SELECT
        run_id,
        stage,
        max_by(moved.node, moved.ordinal) AS source,
        min_by(compute.node, compute.start_ns) AS node,
        'input' AS kind
    FROM operation AS moved
    INNER JOIN compute USING (run_id, stage, chunk)
    WHERE moved.type = 'params-all-gather' AND compute.direction = 'forward'
    GROUP BY run_id, stage, chunk
    UNION ALL
    SELECT
        run_id,
        stage,
        max_by(compute.node, compute.end_ns),
        min_by(moved.node, moved.ordinal),
        'output'
    FROM operation AS moved
    INNER JOIN compute USING (run_id, stage, chunk)
    INNER JOIN job USING (run_id)
    WHERE
        is_overlapped
        AND moved.type = 'grads-reduce-scatter'
        AND compute.direction = 'backward'
    GROUP BY run_id, stage, chunk
),

-- If only computation is logged: the n-th of a chunk after the n-th of the previously
-- numbered chunk.
numbered AS (
    SELECT
        compute.*,
        row_number() OVER (
            PARTITION BY run_id, stage, direction, chunk ORDER BY ordinal
        ) AS number,
        (chunk * stage_count + stage_position)
        * CASE WHEN direction = 'forward' THEN 1 ELSE -1 END AS place
    FROM compute
    INNER JOIN job USING (run_id)
    WHERE NOT has_transfers
),

edge AS (
    SELECT run_id, stage AS source_stage, source, stage, node, kind
    FROM (
        FROM in_order
        UNION ALL
        FROM of_transfer
        UNION ALL
        FROM first_backward
        UNION ALL
        FROM of_chunk
        UNION ALL
        FROM graph.pipeline_finish
    )
    WHERE source IS NOT NULL
    UNION ALL
    SELECT
        numbered.run_id, numbered.stage, numbered.node, later.stage, later.node, 'pipeline'
    FROM numbered
    INNER JOIN numbered AS later
        ON
            numbered.run_id = later.run_id
            AND numbered.direction = later.direction
            AND numbered.number = later.number
            AND numbered.place + 1 = later.place
)

SELECT
    run_id,
    source_stage,
    source.type,
    source.ordinal,
    stage,
    node.type,
    node.ordinal,
    min(kind)
FROM edge
SEMI JOIN operation AS known
    ON edge.run_id = known.run_id AND edge.stage = known.stage AND edge.node = known.node
GROUP BY ALL;
