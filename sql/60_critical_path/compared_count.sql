-- How many steps of a run are compared with those of another: as many as
-- `critical_path.compared_path` has, of all ranks together.
CREATE MACRO critical_path.compared_count(
    -- The run.
    compared_run_id
) AS (
    (SELECT count(*) FROM critical_path.compared_path WHERE run_id = compared_run_id)
);
