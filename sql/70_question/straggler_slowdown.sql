-- How much longer do steps take because of stragglers? Steps are simulated with typical
-- times for all operations except those of the row, which keep their own, and compared with
-- steps of typical times only (Lin et al., *Understanding Stragglers in Large Model
-- Training Using What-if Analysis*, 2025). For tables of operations.
-- One row per choice of operations and step, and one for all steps.
-- Key: run_id, scope, name, step.
CREATE VIEW question.straggler_slowdown (
    -- The run.
    run_id,
    -- What keeps its own time: the whole `job`, one `op_type`, one `dp_rank`, one `stage`,
    -- or one `worker` (the smaller value of its data-parallel rank and its stage).
    scope,
    -- Which one: `job`, a type of operation, the number of a data-parallel rank or a stage,
    -- or the rank of a worker.
    name,
    -- Number of the step; NULL: the mean time of all steps, divided by their ideal mean
    -- time.
    step,
    -- Slowdown factor of the steps: 1 if nothing is slower than its peers.
    slowdown
) AS
WITH
time AS (
    SELECT run_id, scope, name, step, sum(simulated_ns) AS simulated_ns
    FROM reference.straggler_time
    GROUP BY GROUPING SETS ((run_id, scope, name), (run_id, scope, name, step))
)

SELECT
    time.run_id,
    time.scope,
    time.name,
    time.step,
    time.simulated_ns / nullif(ideal.simulated_ns, 0) AS slowdown
FROM time
INNER JOIN time AS ideal
    ON time.run_id = ideal.run_id AND time.step IS NOT DISTINCT FROM ideal.step
WHERE ideal.scope = 'ideal' AND time.scope NOT IN ('ideal', 'without')
UNION ALL
SELECT run_id, 'worker', rank::VARCHAR, step, slowdown
FROM prediction.worker_slowdown
ORDER BY run_id, scope, step NULLS FIRST, slowdown DESC, name;
