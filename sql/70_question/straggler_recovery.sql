-- How much of the cost of stragglers is recovered if only some workers become like the
-- others? For tables of operations.
-- One row per run and choice of workers.
-- Key: run_id, name.
CREATE VIEW question.straggler_recovery (
    -- The run.
    run_id,
    -- Which: `worst_workers`, the 3 % with the largest slowdown (at least one), or the
    -- `last_stage`.
    name,
    -- [ns] Mean time of a step, simulated with the operations' own times.
    simulated_ns,
    -- [ns] The same with typical times for these workers.
    without_ns,
    -- [ns] The same with typical times for all.
    ideal_ns,
    -- [1] Share of the cost of stragglers that is recovered; above 1 if these workers have
    -- more to do than the others, so that typical times are fast for them.
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
