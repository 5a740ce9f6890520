-- Iterations: the profiler's step marks, or those that the user named, on their host
-- thread. Without either a trace has no steps; staging.step_mark tells what could be one.
-- One row per step.
-- Key: step_id.
CREATE TABLE staging.step (
    -- The step mark's event.
    step_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread of the mark.
    thread_id,
    -- Name of the mark.
    name,
    -- Number of the step, from its name; else its ordinal among the trace's steps, from 0.
    step,
    -- [ns] Begin of the mark.
    start_ns,
    -- [ns] End of the mark.
    end_ns,
    -- [ns] End of the last GPU work that was launched in the step, if any was.
    gpu_end_ns
) AS
SELECT step.*, gpu_end_ns
FROM staging.step_range AS step
LEFT JOIN (
    SELECT step_id, max(end_ns) AS gpu_end_ns
    FROM staging.step_work
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    GROUP BY step_id
) USING (step_id);
