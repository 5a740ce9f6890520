-- The start of the simulation of each trace: the first event of a host thread.
-- One row per trace with host threads.
-- Key: trace_id.
CREATE VIEW simulation.origin (
    -- The trace.
    trace_id,
    -- [ns] That time by the clock of the trace.
    origin_ns,
    -- [ns] That time by the clock of the run, if ranks are compared (`graph.clock`).
    run_origin_ns
) AS
SELECT
    timeline.trace_id,
    min(start_ns),
    min(start_ns) + any_value(shift_ns)
FROM overhead.timeline AS timeline
LEFT JOIN graph.clock AS clock ON timeline.trace_id = clock.trace_id
WHERE position = 1
GROUP BY timeline.trace_id;
