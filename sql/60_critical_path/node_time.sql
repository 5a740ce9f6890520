-- When each node starts and ends, measured and simulated, on one clock. In the simulation,
-- ops, calls and user ranges are at the same fraction of their span of host time as
-- measured.
-- One row per variant (0 is measured) and node.
-- Key: variant_id, node_id.
CREATE VIEW critical_path.node_time (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The node, as in `graph.node`.
    node_id,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns
) AS
WITH
-- A start is in the span that starts then or before, an end in the one that ends then or
-- later.
located AS (
    SELECT
        node.run_id,
        node.trace_id,
        node_id,
        node.thread_id,
        first.position AS first_position,
        (node.start_ns - first.start_ns) / (first.end_ns - first.start_ns) AS first_share,
        last.position AS last_position,
        (node.end_ns - last.start_ns) / (last.end_ns - last.start_ns) AS last_share
    FROM graph.node AS node
    ASOF INNER JOIN overhead.timeline AS first
        ON node.thread_id = first.thread_id AND node.start_ns >= first.start_ns
    ASOF INNER JOIN overhead.timeline AS last
        ON node.thread_id = last.thread_id AND node.end_ns <= last.end_ns
)

SELECT 0, run_id, node.trace_id, node_id, start_ns - origin_ns, end_ns - origin_ns
FROM graph.node AS node
INNER JOIN simulation.origin AS origin ON node.trace_id = origin.trace_id
UNION ALL
SELECT
    first.variant_id,
    located.run_id,
    located.trace_id,
    node_id,
    first.start_ns + round(first_share * (first.end_ns - first.start_ns))::BIGINT,
    last.start_ns + round(last_share * (last.end_ns - last.start_ns))::BIGINT
FROM located
INNER JOIN simulation.host_span_time AS first
    ON located.thread_id = first.thread_id AND first_position = first.position
INNER JOIN simulation.host_span_time AS last
    ON
        first.variant_id = last.variant_id
        AND located.thread_id = last.thread_id
        AND last_position = last.position
UNION ALL
SELECT variant_id, run_id, trace_id, gpu_op_id, start_ns, end_ns
FROM simulation.gpu_work_time;
