-- What a prediction of a step may not learn from (leave one out): that step, the trace or
-- the run that it is of; NULL where it may learn from all.
CREATE MACRO prediction.left_out_id(
    -- Where host time is from, as in `prediction.method`.
    host_from,
    -- The run of the step.
    run_id,
    -- Its trace.
    trace_id,
    -- The step.
    step_id
) AS (
    CASE host_from
        WHEN 'other_steps' THEN step_id
        WHEN 'other_ranks' THEN trace_id
        WHEN 'other_runs' THEN run_id
        WHEN 'library' THEN run_id
    END
);
