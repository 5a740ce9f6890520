-- Runs that have all ranks of their job.
-- One row per such run.
-- Key: run_id.
CREATE VIEW staging.complete_run (
    -- The run.
    run_id
) AS
SELECT run_id
FROM staging.trace
GROUP BY run_id
HAVING count(DISTINCT rank) = max(world_size);
