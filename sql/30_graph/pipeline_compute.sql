-- Computation of microbatches in a pipeline, with what it could start after: the previous
-- computation in its stage, and that of the neighboring stage whose result it needs.
-- One row per computation.
-- Key: operation_id.
CREATE VIEW graph.pipeline_compute (
    -- The operation.
    operation_id,
    -- The run.
    run_id,
    -- Number of the step.
    step,
    -- Data-parallel rank.
    dp_rank,
    -- Ordinal of the stage, from 0.
    stage_position,
    -- How many stages there are.
    stage_count,
    -- `forward` or `backward`.
    direction,
    -- Ordinal among the microbatches of its chunk, from 0.
    number,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- [ns] Duration.
    duration_ns,
    -- [ns] End of everything that it waited for; NULL if it waited for nothing.
    ready_ns
) AS
WITH
compute AS (
    SELECT
        operation.*,
        direction,
        dense_rank() OVER (PARTITION BY run_id ORDER BY stage) - 1 AS stage_position,
        row_number() OVER (
            PARTITION BY run_id, step, dp_rank, stage, direction, chunk ORDER BY ordinal
        ) - 1 AS number,
        lag(end_ns) OVER (
            PARTITION BY run_id, step, dp_rank, stage ORDER BY start_ns
        ) AS before_ns
    FROM staging.operation
    INNER JOIN graph.pipeline_step USING (run_id, step)
    INNER JOIN staging.operation_type USING (type)
    WHERE kind = 'compute' AND is_alike
),

-- Chunks of all stages are numbered through the model.
placed AS (
    SELECT
        *,
        max(stage_position) OVER (PARTITION BY run_id) + 1 AS stage_count,
        chunk * stage_count + stage_position AS place,
        place + CASE WHEN direction = 'forward' THEN -1 ELSE 1 END AS source_place
    FROM compute
)

SELECT
    placed.operation_id,
    placed.run_id,
    placed.step,
    placed.dp_rank,
    placed.stage_position,
    placed.stage_count,
    placed.direction,
    placed.number,
    placed.start_ns,
    placed.end_ns,
    placed.duration_ns,
    -- `greatest` ignores missing values.
    greatest(placed.before_ns, source.end_ns)
FROM placed
LEFT JOIN placed AS source
    ON
        placed.run_id = source.run_id
        AND placed.step = source.step
        AND placed.dp_rank = source.dp_rank
        AND placed.direction = source.direction
        AND placed.number = source.number
        AND placed.source_place = source.place;
