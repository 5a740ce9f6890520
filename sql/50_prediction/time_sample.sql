-- The times in steps that edits may set others to: spans of host time (`overhead.sample`)
-- and GPU work (`prediction.work_sample`), with a digest that identifies each in a step.
-- One row per span of host time in a step, except waits, and per GPU op launched in one.
-- Key: kind, target_id, position.
CREATE VIEW prediction.time_sample (
    -- `host` (a span of host time) or `gpu` (GPU work).
    kind,
    -- The thread, or the GPU op.
    target_id,
    -- Position of the span on the thread; 0 for GPU work.
    position,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- Digest of what it is: the same in other steps, ranks and runs.
    key,
    -- Whether it is a collective.
    is_collective,
    -- [ns] Measured duration.
    sample_ns
) AS
SELECT
    'host',
    sample.thread_id,
    position,
    sample.run_id,
    sample.trace_id,
    step,
    hash('host', role, type, sample.name, ordinal),
    false,
    sample_ns
FROM overhead.sample AS sample
INNER JOIN staging.step AS step ON sample.step_id = step.step_id
UNION ALL
SELECT
    'gpu',
    gpu_op_id,
    0,
    sample.run_id,
    sample.trace_id,
    step,
    hash('gpu', role, kind, sample.name, ordinal, part),
    is_collective,
    sample_ns
FROM prediction.work_sample AS sample
INNER JOIN staging.step AS step ON sample.step_id = step.step_id;
