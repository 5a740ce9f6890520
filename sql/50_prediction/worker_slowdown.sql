-- Slowdown of steps due to a worker: the smaller value of its data-parallel rank and its
-- stage, because a slow worker slows both.
-- One row per worker and step, and one for all steps.
-- Key: run_id, rank, step.
CREATE VIEW prediction.worker_slowdown (
    -- The run.
    run_id,
    -- Rank.
    rank,
    -- Data-parallel rank.
    dp_rank,
    -- Pipeline stage.
    stage,
    -- Number of the step; NULL: the mean of all.
    step,
    -- Slowdown factor of the steps, compared with ideal ones.
    slowdown
) AS
WITH
-- Sums over all steps, and each step individually.
time AS (
    SELECT run_id, scope, name, step, sum(simulated_ns) AS simulated_ns
    FROM reference.straggler_time
    GROUP BY GROUPING SETS ((run_id, scope, name), (run_id, scope, name, step))
),

slowdown AS (
    SELECT
        time.run_id,
        time.scope,
        time.name,
        time.step,
        time.simulated_ns / nullif(ideal.simulated_ns, 0) AS slowdown
    FROM time
    INNER JOIN time AS ideal
        ON time.run_id = ideal.run_id AND time.step IS NOT DISTINCT FROM ideal.step
    WHERE ideal.scope = 'ideal'
),

worker AS (
    SELECT DISTINCT run_id, rank, dp_rank, stage
    FROM staging.operation
)

SELECT
    worker.run_id,
    rank,
    dp_rank,
    stage,
    of_stage.step,
    least(of_stage.slowdown, of_rank.slowdown)
FROM worker
INNER JOIN slowdown AS of_stage
    ON
        worker.run_id = of_stage.run_id
        AND of_stage.scope = 'stage'
        AND worker.stage::VARCHAR = of_stage.name
INNER JOIN slowdown AS of_rank
    ON
        worker.run_id = of_rank.run_id
        AND of_rank.scope = 'dp_rank'
        AND worker.dp_rank::VARCHAR = of_rank.name
        AND of_stage.step IS NOT DISTINCT FROM of_rank.step;
