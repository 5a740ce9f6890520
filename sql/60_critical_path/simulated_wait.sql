-- The GPU work that hops of critical paths end with, and what continues after the delay
-- behind it.
-- One row per hop of a path after which the previous hop started because of GPU work.
-- Key: variant_id, scope, path_id, hop.
CREATE VIEW critical_path.simulated_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- Position on the path, as in `critical_path.simulated_hop`.
    hop,
    -- Why the previous hop started after it, as in that relation.
    reason,
    -- The work.
    awaited_id,
    -- Its trace.
    trace_id,
    -- [ns] Offset to add to its times to get times of the path.
    shift_ns,
    -- Whether it is a collective of several ranks.
    meets,
    -- [ns] Start, if it is on this lane.
    arrival_ns,
    -- [ns] For a collective, when all ranks in the run had arrived.
    complete_ns,
    -- [ns] When its data began to move.
    moving_ns,
    -- [ns] End.
    end_ns,
    -- What then continues: a thread, or GPU work; NULL at the end of a path.
    waiting_id,
    -- Position of the wait on that thread; 0 for GPU work.
    waiting_position
) AS
WITH
hop AS MATERIALIZED (FROM critical_path.simulated_hop),

-- The first work of a segment, or the wait that ends the segment before.
delayed AS (
    SELECT hop.variant_id, scope, path_id, hop + 1 AS hop, waiting_id, waiting_position
    FROM hop
    INNER JOIN (
        SELECT variant_id, lane, segment, gpu_op_id AS waiting_id, 0 AS waiting_position
        FROM simulation.gpu_offset
        WHERE is_first
        UNION ALL
        SELECT variant_id, thread_id, segment + 1, thread_id, position
        FROM simulation.host_offset
        WHERE waits
    ) AS waiter USING (variant_id, lane, segment)
)

SELECT
    hop.variant_id,
    hop.scope,
    hop.path_id,
    hop.hop,
    hop.reason,
    hop.awaited_id,
    time.trace_id,
    hop.next_shift_ns,
    collective.node_id IS NOT NULL,
    CASE WHEN last_id = awaited_id THEN time.start_ns END,
    time.end_ns - gpu.predicted_ns AS all_arrived_ns,
    least(all_arrived_ns + coalesce(absent_waiting_ns, 0), time.end_ns),
    time.end_ns,
    waiting_id,
    waiting_position
FROM hop
INNER JOIN prediction.gpu_time AS gpu
    ON hop.variant_id = gpu.variant_id AND awaited_id = gpu.gpu_op_id
INNER JOIN simulation.gpu_work_time AS time
    ON hop.variant_id = time.variant_id AND awaited_id = time.gpu_op_id
LEFT JOIN graph.collective AS collective ON awaited_id = collective.node_id
LEFT JOIN delayed
    ON
        hop.variant_id = delayed.variant_id
        AND hop.scope = delayed.scope
        AND hop.path_id = delayed.path_id
        AND hop.hop = delayed.hop;
