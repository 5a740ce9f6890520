-- Which operations keep their own time in a scenario of `prediction.straggler_scenario`:
-- those that match a row in all its non-NULL columns. `ideal` has none.
-- One row per run, scenario and choice.
-- Key: run_id, scope, name, op_type, dp_rank, stage.
CREATE VIEW prediction.straggler_kept (
    -- The run.
    run_id,
    -- The scope of the scenario.
    scope,
    -- Its name in the scope.
    name,
    -- Type of operation; NULL: all.
    op_type,
    -- Data-parallel rank; NULL: all.
    dp_rank,
    -- Pipeline stage; NULL: all.
    stage
) AS
WITH
-- The worst 3 % of workers, at least one.
ranked AS (
    SELECT
        run_id,
        dp_rank,
        stage,
        row_number() OVER (PARTITION BY run_id ORDER BY slowdown DESC, rank) AS ordinal,
        (3 * count(*) OVER (PARTITION BY run_id) + 99) // 100 AS worst
    FROM prediction.worker_slowdown
    WHERE step IS NULL
)

SELECT
    run_id,
    scope,
    name,
    CASE scope WHEN 'op_type' THEN name END,
    CASE scope WHEN 'dp_rank' THEN name END::BIGINT,
    CASE scope WHEN 'stage' THEN name END::BIGINT
FROM prediction.straggler_scenario
WHERE scope NOT IN ('ideal', 'without')
UNION ALL
SELECT DISTINCT run_id, 'without', 'last_stage', NULL, NULL::BIGINT, stage
FROM staging.operation
QUALIFY stage < max(stage) OVER (PARTITION BY run_id)
UNION ALL
SELECT run_id, 'without', 'worst_workers', NULL, dp_rank, stage
FROM ranked
WHERE ordinal > worst;
