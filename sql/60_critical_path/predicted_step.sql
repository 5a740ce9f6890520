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
    began.scenario,
    began.rung,
    step.run_id,
    step.trace_id,
    step_id,
    began.start_ns,
    ended.end_ns
FROM critical_path.step_piece AS step
INNER JOIN critical_path.host_piece_time AS began
    ON step.thread_id = began.thread_id AND first_position = began.position
INNER JOIN critical_path.host_piece_time AS ended
    ON
        step.thread_id = ended.thread_id
        AND last_position = ended.position
        AND began.scenario = ended.scenario
        AND began.rung = ended.rung;
