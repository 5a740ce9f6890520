-- The time of each operation by itself, and the typical time of its type in the run: the
-- mean of computation, the median of communication, over all ranks and steps.
-- One row per operation of a step that is similar to others.
-- Key: operation_id.
CREATE VIEW prediction.operation_time (
    -- The operation.
    operation_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- Type; sends and receives of a direction are one.
    op_type,
    -- Data-parallel rank.
    dp_rank,
    -- Pipeline stage.
    stage,
    -- The first of the operations that form one with it; NULL if it is alone.
    group_id,
    -- Whether the step ends with the last of these: optimizers, otherwise all.
    ends_step,
    -- [ns] Its time once all of its peers have arrived.
    own_ns,
    -- [ns] Typical time of operations of its type.
    ideal_ns
) AS
SELECT
    operation_id,
    own.run_id,
    own.trace_id,
    own.step,
    op_type,
    dp_rank,
    stage,
    group_id,
    type = 'optimizer'
    OR NOT bool_or(type = 'optimizer') OVER (PARTITION BY own.run_id),
    own_ns,
    round(
        CASE WHEN is_communication THEN median(own_ns) OVER alike ELSE avg(own_ns) OVER alike END
    )::BIGINT
FROM graph.operation AS own
INNER JOIN staging.operation USING (operation_id)
INNER JOIN staging.operation_type USING (type)
WINDOW alike AS (PARTITION BY own.run_id, type);
