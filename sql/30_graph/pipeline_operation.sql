-- The operations of one data-parallel rank in one step, which represent those of all:
-- dependencies are found among them.
-- One row per operation.
-- Key: run_id, stage, type, ordinal.
CREATE TABLE graph.pipeline_operation (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Pipeline stage.
    stage,
    -- Type, as in `staging.operation_type`.
    type,
    -- Which of its type in the stage, from 0.
    ordinal,
    -- `compute`, `send`, `recv`, `collective` or `other`.
    kind,
    -- `forward` or `backward`, for operations of a microbatch.
    direction,
    -- The lane that executes it, in order.
    stream,
    -- Its ordinal among what follows the last computation.
    tail,
    -- Ordinal of the stage in the run, from 0.
    stage_position,
    -- How many stages there are.
    stage_count,
    -- Model chunk of the stage, from 0.
    chunk,
    -- Number of chunks per stage.
    chunk_count,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
SELECT
    run_id,
    trace_id,
    stage,
    type,
    ordinal,
    kind,
    direction,
    stream,
    tail,
    dense_rank() OVER (PARTITION BY run_id ORDER BY stage) - 1 AS stage_position,
    count(DISTINCT stage) OVER (PARTITION BY run_id) AS stage_count,
    chunk,
    max(chunk) OVER (PARTITION BY run_id) + 1 AS chunk_count,
    start_ns,
    end_ns
FROM (
    SELECT *
    FROM staging.operation
    INNER JOIN graph.pipeline_step USING (run_id, step)
    WHERE is_reference
    QUALIFY dp_rank = min(dp_rank) OVER (PARTITION BY run_id)
)
INNER JOIN staging.operation_type USING (type);
