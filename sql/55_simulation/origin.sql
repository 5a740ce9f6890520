-- The start of the simulation of each trace: the first event of a host thread, or of a
-- device where no host thread was recorded, as in traces of kernels alone.
-- One row per trace with host threads or GPU work.
-- Key: trace_id.
CREATE VIEW simulation.origin (
    -- The trace.
    trace_id,
    -- [ns] That time by the clock of the trace.
    origin_ns,
    -- [ns] That time by the clock of the run, if ranks are compared (`graph.clock`).
    run_origin_ns
) AS
WITH
host AS (
    SELECT trace_id, min(start_ns) AS start_ns
    FROM overhead.timeline
    WHERE position = 1
    GROUP BY trace_id
),

device AS (
    SELECT trace_id, min(start_ns) AS start_ns
    FROM staging.gpu_op
    WHERE kind <> 'other' AND trace_id NOT IN (SELECT trace_id FROM host)
    GROUP BY trace_id
)

SELECT trace_id, start_ns, start_ns + shift_ns
FROM (FROM host UNION ALL FROM device)
LEFT JOIN graph.clock AS clock USING (trace_id);
