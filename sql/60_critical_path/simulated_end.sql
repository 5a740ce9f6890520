-- The segments in which critical paths of the simulation end: on the host, that of the span
-- with which the step's mark ends; for GPU work, the one after which it ended, for a
-- collective among those of its own rank.
-- One row per variant and path.
-- Key: variant_id, scope, path_id.
CREATE VIEW critical_path.simulated_end (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- Lane of the segment: a thread, minus the first work of a stream, or 0, the origin.
    lane,
    -- Segment of that lane.
    segment,
    -- [ns] Start of the segment, from the start of its trace.
    begin_ns,
    -- Span of host time with which the path ends; NULL on a device.
    last_position
) AS
SELECT
    path.variant_id, scope, path_id, host.thread_id, ended.segment, ended.begin_ns,
    host.position
FROM critical_path.path AS path
INNER JOIN simulation.step_span AS step ON path.path_id = step.step_id
INNER JOIN simulation.host_offset AS host
    ON
        path.variant_id = host.variant_id
        AND step.thread_id = host.thread_id
        AND step.last_position = host.position
INNER JOIN simulation.segment_time AS ended
    ON
        host.variant_id = ended.variant_id
        AND host.thread_id = ended.lane
        AND host.segment + host.waits::INTEGER = ended.segment
WHERE path.gpu_op_id IS NULL
UNION ALL
(
    SELECT
        path.variant_id, scope, path_id, source_lane, source_segment, source.begin_ns, NULL
    FROM critical_path.path AS path
    INNER JOIN simulation.work_end AS work
        ON
            path.variant_id = work.variant_id
            AND path.gpu_op_id = work.gpu_op_id
            AND path.trace_id = source_trace_id
    INNER JOIN simulation.segment_time AS source
        ON
            work.variant_id = source.variant_id
            AND source_trace_id = source.trace_id
            AND source_lane = source.lane
            AND source_segment = source.segment
    QUALIFY row_number() OVER (
        PARTITION BY path.variant_id, scope, path_id
        ORDER BY source.begin_ns + weight_ns DESC, source_lane, source_segment
    ) = 1
);
