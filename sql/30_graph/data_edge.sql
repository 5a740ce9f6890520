-- Which op takes a tensor produced by another op, from the execution graph of the run. Only
-- ops without child ops count: their parents take and produce the same.
-- One row per pair of ops.
-- Key: source_op_id, target_op_id.
CREATE TABLE graph.data_edge (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that last produced the tensor.
    source_op_id,
    -- The op that takes it.
    target_op_id,
    -- Tensors passed from one to the other.
    tensor_count
) AS
WITH
leaf_tensor AS (
    SELECT tensor.*, op.start_ns
    FROM staging.tensor
    INNER JOIN staging.op USING (trace_id, op_id)
    ANTI JOIN staging.op AS child ON tensor.op_id = child.parent_op_id
),

given AS (
    SELECT * FROM leaf_tensor WHERE direction = 'out'
)

SELECT
    taken.run_id,
    taken.trace_id,
    given.op_id AS source_op_id,
    taken.op_id AS target_op_id,
    count(DISTINCT taken.tensor) AS tensor_count
FROM leaf_tensor AS taken
ASOF INNER JOIN given
    ON
        taken.trace_id = given.trace_id
        AND taken.occurrence = given.occurrence
        AND taken.tensor = given.tensor
        AND taken.start_ns > given.start_ns
WHERE taken.direction = 'in'
GROUP BY ALL;
