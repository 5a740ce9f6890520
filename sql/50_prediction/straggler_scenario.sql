-- Scenarios that tell what stragglers cost: steps with typical times for all operations
-- but some, which keep their own.
-- One row per run and scenario.
-- Key: run_id, scope, name.
CREATE VIEW prediction.straggler_scenario (
    -- The run.
    run_id,
    -- What keeps its time: all of the `job`, nothing (`ideal`), one `op_type`, one
    -- `dp_rank`, one `stage`, or all that is not of some workers (`without`).
    scope,
    -- Which: a type of operation, the number of a data-parallel rank or stage,
    -- `last_stage` or `worst_workers`; the scope again of `job` and `ideal`.
    name
) AS
SELECT DISTINCT run_id, unnest(['job', 'ideal']) AS scope, scope
FROM staging.operation
UNION ALL
SELECT DISTINCT run_id, 'op_type', op_type
FROM staging.operation
INNER JOIN staging.operation_type USING (type)
UNION ALL
SELECT DISTINCT run_id, 'dp_rank', dp_rank::VARCHAR
FROM staging.operation
UNION ALL
SELECT DISTINCT run_id, 'stage', stage::VARCHAR
FROM staging.operation
UNION ALL
SELECT DISTINCT run_id, 'without', 'last_stage'
FROM staging.operation
UNION ALL
-- Which are worst is known when the scenarios above have been simulated.
SELECT DISTINCT run_id, 'without', 'worst_workers'
FROM reference.straggler_time;
