-- Critical paths, followed from their ends backwards: from what had to wait to what it
-- waited for. The measured path follows causes (`critical_path.measured_hop`), with a hop
-- for each GPU op and each wait of a thread. A simulated path follows segments
-- (`critical_path.simulated_hop`), which contain all work between two waits. By default
-- only variant 0 is included, as in `critical_path.path`.
-- One row per variant (0 is measured) and hop of a path, from its end backwards.
-- Key: variant_id, scope, path_id, hop.
CREATE VIEW critical_path.hop (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- Position on the path, from 1 at its end.
    hop,
    -- The trace of the hop.
    trace_id,
    -- The host thread along which the hop runs; NULL on a device.
    thread_id,
    -- The GPU work that the hop passes; NULL on the host. For a segment the last one; a
    -- segment of a thread leads through its launches to that.
    gpu_op_id,
    -- [ns] End of the hop, by the clock of its trace.
    until_ns,
    -- What the previous hop waited for: `return`, `join`, `fork`, `launch`, `stream`,
    -- `stream_wait`, `occupancy`, `arrival` (of another rank); in simulations also `host`,
    -- `thread` and `origin` (`simulation.segment_edge`); `end` at the path's end.
    reason,
    -- [ns] Offset to add to times of the trace to get times of the path's clock.
    shift_ns
) AS
SELECT
    0, scope, path_id, hop, trace_id, thread_id, gpu_op_id, until_ns, reason, shift_ns
FROM critical_path.measured_hop
UNION ALL
SELECT
    hop.variant_id,
    hop.scope,
    hop.path_id,
    hop.hop,
    hop.trace_id,
    CASE WHEN hop.lane > 0 THEN prediction.lane_thread(hop.lane) END,
    hop.last_id,
    coalesce(
        lag(hop.begin_ns + hop.shift_ns) OVER (
            PARTITION BY hop.variant_id, hop.scope, hop.path_id ORDER BY hop.hop
        ),
        path.end_ns
    ) - (hop.shift_ns - origin_ns),
    hop.reason,
    hop.shift_ns - origin_ns
FROM critical_path.simulated_hop AS hop
INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
INNER JOIN simulation.origin AS origin ON hop.trace_id = origin.trace_id
-- Parts that were not requested are not even planned.
WHERE getvariable('methods') IS NOT NULL;
