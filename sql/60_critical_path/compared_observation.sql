-- The compared paths, with their observation: ranks wait for each other in a step, so their
-- paths of one step are one observation, not several. It counts as their mean.
-- One row per path.
-- Key: run_id, trace_id, path_id.
CREATE VIEW critical_path.compared_observation (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The path, as in `critical_path.compared_path`.
    path_id,
    -- Number of the observation among those of the run, from 1.
    observation,
    -- The weight of the path in its mean: 1 / number of its paths.
    weight
) AS
WITH
path AS (
    SELECT
        *,
        -- A rank may have several recordings with equal numbers of steps.
        row_number() OVER (
            PARTITION BY run_id, rank, step ORDER BY trace_id, path_id
        ) AS recording
    FROM critical_path.compared_path
)

SELECT
    run_id,
    trace_id,
    path_id,
    dense_rank() OVER (PARTITION BY run_id ORDER BY recording, step),
    1 / count(*) OVER (PARTITION BY run_id, recording, step)
FROM path;
