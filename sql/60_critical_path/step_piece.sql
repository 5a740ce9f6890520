-- Which pieces of host time each step begins and ends with.
-- One row per step that takes time.
-- Key: step_id.
CREATE VIEW critical_path.step_piece (
    -- Step.
    step_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Number of the step.
    step,
    -- Host thread of its mark.
    thread_id,
    -- Place on the thread of the piece that begins with the step.
    first_position,
    -- Place of the piece that ends with it.
    last_position
) AS
SELECT
    step.step_id,
    step.run_id,
    step.trace_id,
    step.step,
    step.thread_id,
    first.position,
    last.position
FROM staging.step AS step
INNER JOIN overhead.timeline AS first
    ON step.thread_id = first.thread_id AND step.start_ns = first.start_ns
INNER JOIN overhead.timeline AS last
    ON step.thread_id = last.thread_id AND step.end_ns = last.end_ns
WHERE step.end_ns > step.start_ns;
