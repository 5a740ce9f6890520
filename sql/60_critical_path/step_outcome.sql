-- When the mark of each step starts and ends, measured and simulated, on one clock.
-- One row per variant (0 is measured) and step whose mark takes time.
-- Key: variant_id, step_id.
CREATE VIEW critical_path.step_outcome (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns
) AS
SELECT variant_id, trace_id, step_id, host_start_ns, host_end_ns
FROM critical_path.step_period
WHERE host_end_ns > host_start_ns;
