-- GPU work next to which work on another stream of its device ran, as recorded: both may
-- have taken longer for that.
-- One row per such GPU op.
-- Key: gpu_op_id.
CREATE VIEW graph.concurrent_work (
    -- The GPU op.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- [ns] How long the last work of another stream that began before its end ran with it.
    together_ns
) AS
SELECT
    own.gpu_op_id,
    own.trace_id,
    max(least(own.end_ns, other.end_ns) - greatest(own.start_ns, other.start_ns))
FROM graph.stream_position AS own
INNER JOIN (SELECT DISTINCT trace_id, device, stream FROM graph.stream_position) AS beside
    ON
        own.trace_id = beside.trace_id
        AND own.device = beside.device
        AND own.stream <> beside.stream
ASOF INNER JOIN graph.stream_position AS other
    ON
        beside.trace_id = other.trace_id
        AND beside.device = other.device
        AND beside.stream = other.stream
        AND own.end_ns > other.start_ns
WHERE other.end_ns > own.start_ns
GROUP BY own.gpu_op_id, own.trace_id;
