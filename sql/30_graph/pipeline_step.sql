-- Steps of a job whose ranks log operations, and which of them are similar, so that the
-- dependencies found in one hold in all.
-- One row per step.
-- Key: run_id, step.
CREATE VIEW graph.pipeline_step (
    -- The run.
    run_id,
    -- Number of the step.
    step,
    -- Whether all data-parallel ranks have the same operations as in most steps.
    is_alike,
    -- Whether it is the one in which dependencies are found: the first similar one.
    is_reference
) AS
WITH
-- For each data-parallel rank, a digest of all its operations.
part AS (
    SELECT run_id, step, dp_rank, bit_xor(hash(stage, type, ordinal)) AS signature
    FROM staging.operation
    GROUP BY run_id, step, dp_rank
),

step AS (
    SELECT
        run_id,
        step,
        min(signature) AS signature,
        min(signature) = max(signature) AS is_uniform,
        count(*) AS dp_ranks
    FROM part
    GROUP BY run_id, step
),

kind AS (
    SELECT run_id, signature, dp_ranks, min(step) AS first_step
    FROM step
    WHERE is_uniform
    GROUP BY run_id, signature, dp_ranks
    QUALIFY
        row_number() OVER (PARTITION BY run_id ORDER BY count(*) DESC, min(step)) = 1
)

SELECT
    run_id,
    step,
    coalesce(is_uniform AND step.signature = kind.signature
    AND step.dp_ranks = kind.dp_ranks, false),
    coalesce(step = first_step, false)
FROM step
LEFT JOIN kind USING (run_id);
