-- Which operation can start only when which other one has ended: the dependencies of
-- `graph.pipeline_edge` in every similar step, for every data-parallel rank.
-- One row per pair of operations.
-- Key: source_operation_id, operation_id.
CREATE TABLE graph.operation_edge (
    -- The run.
    run_id,
    -- The trace of the waiting operation.
    trace_id,
    -- The operation that comes first.
    source_operation_id,
    -- The waiting operation.
    operation_id,
    -- As in `graph.pipeline_edge`.
    kind
) AS
WITH
operation AS (
    SELECT logged.*
    FROM staging.operation AS logged
    INNER JOIN graph.pipeline_step USING (run_id, step)
    WHERE is_alike
)

SELECT
    run_id,
    operation.trace_id,
    source.operation_id,
    operation.operation_id,
    edge.kind
FROM graph.pipeline_edge AS edge
INNER JOIN operation USING (run_id, stage, type, ordinal)
INNER JOIN operation AS source
    ON
        edge.run_id = source.run_id
        AND edge.source_stage = source.stage
        AND edge.source_type = source.type
        AND edge.source_ordinal = source.ordinal
        AND operation.step = source.step
        AND operation.dp_rank = source.dp_rank;
