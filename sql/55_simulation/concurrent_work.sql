-- GPU work that scenarios move or overlap, and that then runs next to other work of its
-- device.
-- One row per variant and such GPU op.
-- Key: variant_id, gpu_op_id.
CREATE VIEW simulation.concurrent_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id
) AS
WITH
placed AS (
    SELECT variant_id, gpu_op_id, work.trace_id, device, lane, work.start_ns, work.end_ns
    FROM simulation.gpu_work_time AS work
    SEMI JOIN prediction.moved_work USING (variant_id)
    INNER JOIN simulation.gpu_offset USING (variant_id, gpu_op_id)
    INNER JOIN graph.stream_position USING (gpu_op_id)
)

SELECT DISTINCT own.variant_id, own.gpu_op_id
FROM prediction.moved_work
INNER JOIN placed AS own USING (variant_id, gpu_op_id)
INNER JOIN (SELECT DISTINCT variant_id, trace_id, device, lane FROM placed) AS beside
    ON
        own.variant_id = beside.variant_id
        AND own.trace_id = beside.trace_id
        AND own.device = beside.device
        AND own.lane <> beside.lane
-- Lanes run in order: the last that starts before it ends.
ASOF INNER JOIN placed AS other
    ON
        beside.variant_id = other.variant_id
        AND beside.trace_id = other.trace_id
        AND beside.lane = other.lane
        AND own.end_ns > other.start_ns
WHERE other.end_ns > own.start_ns;
