-- Number of steps of two runs that are compared: as in `critical_path.compared_path`, of
-- all ranks together.
CREATE MACRO critical_path.compared_count(
    -- The run.
    compared_run_id
) AS (
    (SELECT count(*) FROM critical_path.compared_path WHERE run_id = compared_run_id)
);
