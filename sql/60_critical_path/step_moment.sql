-- When each step begins and ends, measured and simulated, by one clock.
-- One row per variant, 0 as measured, and step that takes time.
-- Key: variant_id, step_id.
CREATE VIEW critical_path.step_moment (
    -- Rung and scenario, as in `prediction.variant`; 0 as measured.
    variant_id,
    -- The trace it is from.
    trace_id,
    -- Step.
    step_id,
    -- [ns] Begin, from the begin of the trace (`critical_path.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns
) AS
SELECT 0, trace_id, step_id, start_ns - origin_ns, end_ns - origin_ns
FROM staging.step
INNER JOIN critical_path.origin USING (trace_id)
WHERE end_ns > start_ns
UNION ALL
SELECT variant_id, trace_id, step_id, start_ns, end_ns
FROM critical_path.predicted_step
INNER JOIN prediction.variant USING (scenario, rung)
WHERE end_ns > start_ns;
