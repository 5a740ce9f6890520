-- Number of observations of a run that are compared, as in
-- `critical_path.compared_observation`: its steps, of all ranks together.
CREATE MACRO critical_path.observation_count(
    -- The run.
    compared_run_id
) AS (
    (
        SELECT count(DISTINCT observation)
        FROM critical_path.compared_observation
        WHERE run_id = compared_run_id
    )
);
