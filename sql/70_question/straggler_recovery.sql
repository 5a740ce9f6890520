-- How much of what stragglers cost is won back when only some workers become as the others?
-- It is asked of tables of operations.
-- One row per run and choice of workers.
-- Key: run_id, name.
CREATE VIEW question.straggler_recovery (
    -- The run.
    run_id,
    -- Which: `worst_workers`, the 3 % with the largest slowdown (at least one), or the
    -- `last_stage`.
    name,
    -- [ns] Mean time of a step, simulated with the times that operations had.
    simulated_ns,
    -- [ns] The same where these workers have typical times.
    without_ns,
    -- [ns] The same where all have.
    ideal_ns,
    -- [1] Share of what stragglers cost that is won back; above 1 where these workers have
    -- more to do than the others, so that to be as they are is to be fast.
    recovered_share
) AS
WITH
time AS (
    SELECT run_id, scope, name, avg(simulated_ns) AS mean_ns
    FROM reference.straggler_time
    GROUP BY run_id, scope, name
)

SELECT
    job.run_id,
    fixed.name,
    round(job.mean_ns)::BIGINT,
    round(fixed.mean_ns)::BIGINT,
    round(ideal.mean_ns)::BIGINT,
    (job.mean_ns - fixed.mean_ns) / nullif(job.mean_ns - ideal.mean_ns, 0)
    AS recovered_share
FROM time AS job
INNER JOIN time AS ideal USING (run_id)
INNER JOIN time AS fixed USING (run_id)
WHERE job.scope = 'job' AND ideal.scope = 'ideal' AND fixed.scope = 'without'
ORDER BY job.run_id, recovered_share DESC;
