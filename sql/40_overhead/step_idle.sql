-- The `idle` time of a step on its own thread: before its first op or launch in the step, and
-- after its last.
-- One row per idle span of a step's thread.
-- Key: step_id, start_ns.
CREATE VIEW overhead.step_idle (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Host thread of the step.
    thread_id,
    -- [ns] Start of the span, as in `overhead.interval`.
    start_ns,
    -- [ns] End of the span.
    end_ns
) AS
SELECT
    idle.run_id, idle.trace_id, idle.step_id, idle.thread_id, idle.start_ns, idle.end_ns
FROM overhead.interval AS idle
INNER JOIN staging.step AS step
    ON idle.step_id = step.step_id AND idle.thread_id = step.thread_id
WHERE type = 'idle';
