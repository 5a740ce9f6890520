-- Iterations: the profiler's step marks, or the ranges named by the user, on their host thread.
-- A trace with neither has no steps; staging.step_mark lists what could mark them, and
-- `tracedb ingest --one-step` takes the whole trace as one.
-- One row per step.
-- Key: step_id.
CREATE TABLE staging.step (
    -- The step mark's event; of a trace that is one step, the first event of the thread; of a
    -- step whose mark was lost, its first op or launch.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread of the mark; of a trace that is one step, the thread that ends last.
    thread_id,
    -- Name of the mark, or `trace`.
    name,
    -- Number of the step, from its name; otherwise its ordinal among the trace's steps,
    -- from 0.
    step,
    -- [ns] Start of the mark.
    start_ns,
    -- [ns] End of the mark.
    end_ns,
    -- Whether it is the last of several marks of the profiler, and no op or launch starts in
    -- it: when a program ends its last step, the profiler begins one more, which ends with
    -- the recording. Sums and means over steps leave it out.
    is_empty,
    -- Whether it is the last of several marks of the profiler, and the recording ended within
    -- it: it has less than the steps before (`staging.last_step`). Periods, means over steps
    -- and counts of steps leave it out, too.
    is_cut,
    -- [ns] End of the last GPU work launched in the step, if any.
    gpu_end_ns
) AS
SELECT
    step.*,
    coalesce(last_step.is_empty, false),
    coalesce(last_step.is_cut, false),
    gpu_end_ns
FROM staging.step_range AS step
LEFT JOIN staging.last_step AS last_step USING (step_id)
LEFT JOIN (
    SELECT step_id, max(end_ns) AS gpu_end_ns
    FROM staging.step_work
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    GROUP BY step_id
) USING (step_id);
