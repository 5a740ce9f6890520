-- What is in a job's table of operations, how long do its steps take, and how much of that
-- is due to stragglers? Steps are simulated as in `question.straggler_slowdown`; for the
-- slowest type of operation, stage, data-parallel rank and worker, it gives the slowdown
-- relative to typical times if only that one keeps its own times.
-- One row per run with a table of operations.
-- Key: run_id.
CREATE VIEW question.job (
    -- The run.
    run_id,
    -- Operations.
    operation_count,
    -- Steps.
    step_count,
    -- Number of the first step.
    first_step,
    -- Number of the last step.
    last_step,
    -- Data-parallel ranks.
    dp_rank_count,
    -- Pipeline stages.
    stage_count,
    -- [ns] Mean time of a step; NULL if operations wait for each other in a cycle.
    simulated_ns,
    -- [ns] The same if nothing were slower than its peers.
    ideal_ns,
    -- The first time divided by the second.
    slowdown,
    -- The slowest type of operation; sends and receives of a direction are one.
    op_type,
    -- Slowdown of the steps due to it.
    op_type_slowdown,
    -- The slowest stage.
    stage,
    -- Slowdown of the steps due to it.
    stage_slowdown,
    -- The slowest data-parallel rank.
    dp_rank,
    -- Slowdown of the steps due to it.
    dp_rank_slowdown,
    -- The slowest worker, by its rank.
    worker,
    -- Slowdown of the steps due to it.
    worker_slowdown
) AS
WITH
job AS (
    SELECT
        run_id,
        count(*) AS operation_count,
        count(DISTINCT step) AS step_count,
        min(step) AS first_step,
        max(step) AS last_step,
        count(DISTINCT dp_rank) AS dp_rank_count,
        count(DISTINCT stage) AS stage_count
    FROM staging.operation
    GROUP BY run_id
),

time AS (
    SELECT
        run_id,
        avg(simulated_ns) FILTER (scope = 'job') AS simulated_ns,
        avg(simulated_ns) FILTER (scope = 'ideal') AS ideal_ns
    FROM reference.straggler_time
    GROUP BY run_id
),

slowest AS (
    SELECT run_id, scope, name, slowdown
    FROM question.straggler_slowdown
    WHERE step IS NULL
    QUALIFY
        row_number() OVER (
            PARTITION BY run_id, scope ORDER BY slowdown DESC, length(name), name
        ) = 1
),

named AS (
    SELECT
        run_id,
        any_value(name) FILTER (scope = 'op_type') AS op_type,
        any_value(slowdown) FILTER (scope = 'op_type') AS op_type_slowdown,
        any_value(name) FILTER (scope = 'stage')::BIGINT AS stage,
        any_value(slowdown) FILTER (scope = 'stage') AS stage_slowdown,
        any_value(name) FILTER (scope = 'dp_rank')::BIGINT AS dp_rank,
        any_value(slowdown) FILTER (scope = 'dp_rank') AS dp_rank_slowdown,
        any_value(name) FILTER (scope = 'worker')::BIGINT AS worker,
        any_value(slowdown) FILTER (scope = 'worker') AS worker_slowdown
    FROM slowest
    GROUP BY run_id
)

SELECT
    job.*,
    round(simulated_ns)::BIGINT,
    round(ideal_ns)::BIGINT,
    simulated_ns / nullif(ideal_ns, 0),
    named.* EXCLUDE (run_id)
FROM job
LEFT JOIN time USING (run_id)
LEFT JOIN named USING (run_id)
ORDER BY job.run_id;
