-- The compared steps, if they are whole: the measured path of the period of each; in a trace
-- without steps, the path of the trace.
-- One row per path.
-- Key: trace_id, path_id.
CREATE VIEW critical_path.compared_path (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The path, as in `critical_path.path`: the step, otherwise the trace.
    path_id,
    -- The rank.
    rank,
    -- Number of the step; NULL for a trace.
    step,
    -- [ns] Its length: the period.
    time_ns
) AS
SELECT path.run_id, trace_id, path_id, rank, step, end_ns - start_ns
FROM critical_path.path AS path
INNER JOIN staging.trace USING (trace_id)
WHERE
    variant_id = 0
    AND critical_path.bounds_period(scope, trace_id)
    AND (step_id IS NULL OR step_id IN (SELECT step_id FROM staging.whole_step));
