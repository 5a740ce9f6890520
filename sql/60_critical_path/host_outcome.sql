-- When each span of host time starts and ends, measured and simulated, on one clock.
-- One row per variant (0 is measured) and span of host time.
-- Key: variant_id, thread_id, position.
CREATE VIEW critical_path.host_outcome (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns
) AS
SELECT 0, trace_id, thread_id, position, start_ns - origin_ns, end_ns - origin_ns
FROM overhead.timeline
INNER JOIN simulation.origin USING (trace_id)
UNION ALL
SELECT variant_id, trace_id, thread_id, position, start_ns, end_ns
FROM simulation.host_span_time;
