-- The steps that count in periods, means over steps and predictions: all but the last one of
-- a trace if it is empty, or if the recording ended within it.
-- One row per such step.
-- Key: step_id.
CREATE VIEW staging.whole_step (
    -- The step.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step
) AS
SELECT step_id, run_id, trace_id, step
FROM staging.step
WHERE NOT is_empty AND NOT is_cut;
