-- What a prediction of a step may not learn from (leave one out): that step, its trace or
-- its run; NULL if it may learn from everything.
CREATE MACRO prediction.left_out_id(
    -- Source of host times, as in `prediction.method`.
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
