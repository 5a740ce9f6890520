-- When each step begins and ends in the simulation.
-- One row per scenario, rung and step.
-- Key: scenario, rung, step_id.
CREATE VIEW critical_path.predicted_step (
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Step.
    step_id,
    -- [ns] Begin, from the begin of the trace.
    start_ns,
    -- [ns] End, from the begin of the trace.
    end_ns
) AS
SELECT
    scenario,
    rung,
    step.run_id,
    step.trace_id,
    step_id,
    min(time.start_ns) FILTER (time.position = step.first_position),
    max(time.end_ns) FILTER (time.position = step.last_position)
FROM critical_path.step_piece AS step
INNER JOIN critical_path.host_piece_time AS time
    ON
        step.thread_id = time.thread_id
        AND time.position IN (step.first_position, step.last_position)
GROUP BY ALL;
