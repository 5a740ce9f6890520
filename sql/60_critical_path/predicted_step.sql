-- When the mark of each step begins and ends in the simulation.
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
SELECT scenario, rung, run_id, trace_id, step_id, host_start_ns, host_end_ns
FROM critical_path.step_period
INNER JOIN prediction.variant USING (variant_id);
