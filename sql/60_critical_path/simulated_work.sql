-- The GPU work on critical paths of the simulation. Along a stream, all work of the segment
-- up to what was awaited; from a host thread, the work from the last launch that was waited
-- for.
-- One row per hop of a path, and GPU work.
-- Key: variant_id, scope, path_id, hop, gpu_op_id.
CREATE VIEW critical_path.simulated_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- Position on the path, as in `critical_path.simulated_hop`.
    hop,
    -- The GPU op.
    gpu_op_id,
    -- Position of the work on its stream.
    position,
    -- [ns] Start, from the start of its trace.
    start_ns,
    -- [ns] End of the previous work, if the path also passes that.
    earlier_end_ns
) AS
WITH
hop AS MATERIALIZED (FROM critical_path.simulated_hop),

-- Work of the segments there, and whether it started later than its stream allowed.
segment_work AS (
    SELECT
        gpu.variant_id,
        gpu.lane,
        gpu.segment,
        gpu.gpu_op_id,
        placement.position,
        time.start_ns,
        lag(time.end_ns) OVER in_segment AS earlier_end_ns,
        coalesce(time.start_ns > earlier_end_ns + stream_delay_ns, true) AS is_late
    FROM simulation.gpu_offset AS gpu
    SEMI JOIN (
        SELECT last.variant_id, last.lane, last.segment
        FROM hop
        INNER JOIN simulation.gpu_offset AS last
            ON hop.variant_id = last.variant_id AND last_id = last.gpu_op_id
    ) AS on_path USING (variant_id, lane, segment)
    INNER JOIN graph.stream_position AS placement ON gpu.gpu_op_id = placement.gpu_op_id
    INNER JOIN simulation.gpu_work_time AS time
        ON gpu.variant_id = time.variant_id AND gpu.gpu_op_id = time.gpu_op_id
    WINDOW in_segment AS (
        PARTITION BY gpu.variant_id, gpu.lane, gpu.segment ORDER BY placement.position
    )
),

passed AS (
    SELECT
        hop.variant_id,
        hop.scope,
        hop.path_id,
        hop.hop,
        work.gpu_op_id,
        work.position,
        work.start_ns,
        work.earlier_end_ns,
        max(CASE WHEN hop.lane <= 0 OR work.is_late THEN work.position END) OVER (
            PARTITION BY hop.variant_id, scope, path_id, hop
        ) AS late_position,
        hop.lane <= 0 OR work.position > late_position AS is_behind
    FROM hop
    INNER JOIN segment_work AS last
        ON hop.variant_id = last.variant_id AND last_id = last.gpu_op_id
    INNER JOIN segment_work AS work
        ON
            last.variant_id = work.variant_id
            AND last.lane = work.lane
            AND last.segment = work.segment
            AND last.position >= work.position
    QUALIFY hop.lane <= 0 OR work.position >= late_position
)

SELECT
    variant_id, scope, path_id, hop, gpu_op_id, position, start_ns,
    CASE WHEN is_behind THEN earlier_end_ns END
FROM passed;
