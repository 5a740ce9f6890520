-- Which steps repeat, and which are different: with an evaluation, a checkpoint, a first
-- compilation? Steps of a rank are of the same kind if they have the same number of ops and
-- of GPU ops. One of them represents the others; a kind with few steps is where to look for
-- anything unusual.
-- Without steps it is empty.
-- One row per run, rank and kind of step; the most frequent first within a rank.
-- Key: run, rank, op_count, gpu_op_count.
CREATE VIEW fleet.repeated_step (
    -- The run.
    run,
    -- The rank.
    rank,
    -- Ops in each of the steps.
    op_count,
    -- Kernels, copies and memsets in each of the steps.
    gpu_op_count,
    -- Steps of this kind.
    step_count,
    -- [1] Their share of all steps of the rank.
    step_share,
    -- The first of them, by number.
    first_step,
    -- The last of them.
    last_step,
    -- [ns] Median of their periods.
    p50_ns
) AS
WITH
kind AS (
    SELECT
        run,
        rank,
        op_count,
        gpu_op_count,
        count(*) AS steps,
        min(step) AS first_step,
        max(step) AS last_step,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY period_ns)) AS BIGINT) AS p50_ns
    FROM fleet.step AS step
    INNER JOIN fleet.trace AS trace ON step.trace_id = trace.trace_id
    GROUP BY run, rank, op_count, gpu_op_count
)

SELECT
    run,
    rank,
    op_count,
    gpu_op_count,
    steps,
    CAST(steps AS DOUBLE) / CAST(sum(steps) OVER (PARTITION BY run, rank) AS DOUBLE),
    first_step,
    last_step,
    p50_ns
FROM kind
ORDER BY run, rank, steps DESC, first_step;
