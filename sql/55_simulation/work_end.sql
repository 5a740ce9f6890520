-- Segments after which GPU work ends: end >= start of the segment + weight, and it ends at
-- the latest of these. Work ends after the segment of its stream and that of the host
-- thread that launched it; a collective ends so after those of all its ranks, because it
-- continues when the last rank has started.
-- One row per variant, GPU work, and segment of a rank.
-- Key: variant_id, gpu_op_id, source_trace_id, source_lane, source_segment, weight_ns.
CREATE VIEW simulation.work_end (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- The trace of the segment.
    source_trace_id,
    -- Lane of the segment.
    source_lane,
    -- Segment of that lane.
    source_segment,
    -- [ns] From the start of the segment, by the start of its trace, to the end of the
    -- work, by the start of the work's.
    weight_ns
) AS
WITH
-- A collective takes its time from the start of each of its parts; a send that does not
-- wait, from its own.
part AS (
    SELECT
        own.variant_id,
        own.gpu_op_id,
        own.trace_id,
        part.trace_id AS part_trace_id,
        part.lane,
        part.segment,
        part.host_lane,
        part.host_segment,
        part.after_stream_ns,
        part.after_host_ns,
        own.predicted_ns - part.predicted_ns + part_origin.run_origin_ns
        - own_origin.run_origin_ns AS later_ns
    FROM simulation.gpu_offset AS own
    INNER JOIN graph.collective AS own_collective ON own.gpu_op_id = own_collective.node_id
    INNER JOIN graph.collective AS part_collective
        ON
            own_collective.last_node_id = part_collective.last_node_id
            AND (NOT own_collective.is_eager OR own.gpu_op_id = part_collective.node_id)
    INNER JOIN simulation.gpu_offset AS part
        ON part_collective.node_id = part.gpu_op_id AND own.variant_id = part.variant_id
    INNER JOIN simulation.origin AS own_origin ON own.trace_id = own_origin.trace_id
    INNER JOIN simulation.origin AS part_origin ON part.trace_id = part_origin.trace_id
)

SELECT variant_id, gpu_op_id, trace_id, trace_id, lane, segment, after_stream_ns
FROM simulation.gpu_offset
ANTI JOIN graph.collective ON gpu_op_id = node_id
UNION ALL
SELECT variant_id, gpu_op_id, trace_id, trace_id, host_lane, host_segment, after_host_ns
FROM simulation.gpu_offset
ANTI JOIN graph.collective ON gpu_op_id = node_id
UNION ALL
SELECT
    variant_id, gpu_op_id, trace_id, part_trace_id, lane, segment, after_stream_ns + later_ns
FROM part
UNION ALL
SELECT
    variant_id, gpu_op_id, trace_id, part_trace_id, host_lane, host_segment,
    after_host_ns + later_ns
FROM part;
