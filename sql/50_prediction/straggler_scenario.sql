-- Scenarios for the cost of stragglers: steps with typical times for all operations except
-- some, which keep their own.
-- One row per run and scenario.
-- Key: run_id, scope, name.
CREATE VIEW prediction.straggler_scenario (
    -- The run.
    run_id,
    -- What keeps its time: the whole `job`, nothing (`ideal`), one `op_type`, one
    -- `dp_rank`, one `stage`, or everything except some workers (`without`).
    scope,
    -- Which one: a type of operation, the number of a data-parallel rank or stage,
    -- `last_stage` or `worst_workers`; for `job` and `ideal`, the scope again.
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
-- The worst are known once the scenarios above have been simulated.
SELECT DISTINCT run_id, 'without', 'worst_workers'
FROM reference.straggler_time;
