-- The dependencies between nodes: what had to start or end before what.
-- One row per pair of nodes and kind.
-- Key: source_node_id, target_node_id, kind.
CREATE VIEW graph.edge (
    -- The run.
    run_id,
    -- The trace of the dependent node.
    trace_id,
    -- The node that comes first.
    source_node_id,
    -- The dependent node.
    target_node_id,
    -- `nesting` (op to what started in it), `thread` (order of a thread's top-level
    -- events), `launch` (call to its GPU work), `stream` (order of a stream), `stream_wait`
    -- (GPU work to work on another stream), `occupancy` (the same, for lack of room),
    -- `sync_stream`, `sync_device`, `sync_event`, `copy`, `queue` (GPU work to the call
    -- that waits for it), `fork` and `join` (between threads), `forward_backward` (op to
    -- its backward op), `data` (op to op through a tensor), `collective` (the last rank's
    -- part of a collective to the other ranks' parts, which end only after it started; also
    -- for a send and its receive) or `schedule` (between operations of a table:
    -- `graph.operation_edge`).
    kind,
    -- Whether the trace records it; otherwise it is inferred from order and times.
    recorded
) AS
SELECT run_id, trace_id, parent_op_id, op_id, 'nesting', true
FROM staging.op
WHERE parent_op_id IS NOT NULL
UNION ALL
SELECT run_id, trace_id, op_id, call_id, 'nesting', true
FROM staging.call
WHERE op_id IS NOT NULL
UNION ALL
SELECT
    run_id, trace_id,
    lag(node_id) OVER (PARTITION BY thread_id ORDER BY start_ns, end_ns) AS source_node_id,
    node_id, 'thread', true
FROM graph.top_level_event
QUALIFY source_node_id IS NOT NULL
UNION ALL
SELECT run_id, trace_id, call_id, gpu_op_id, 'launch', true
FROM staging.gpu_op
WHERE call_id IS NOT NULL
UNION ALL
SELECT run_id, trace_id, previous_gpu_op_id, gpu_op_id, 'stream', true
FROM graph.stream_position
WHERE previous_gpu_op_id IS NOT NULL
UNION ALL
SELECT
    run_id, trace_id, awaited_gpu_op_id, gpu_op_id, reason, recorded
FROM graph.stream_wait
UNION ALL
SELECT
    run_id, trace_id, gpu_op_id, call_id,
    graph.wait_kind(target), recorded
FROM graph.host_wait
UNION ALL
SELECT DISTINCT run_id, trace_id, last_node_id, after_node_id, kind, false
FROM graph.thread_wait
WHERE last_node_id IS NOT NULL AND after_node_id IS NOT NULL
UNION ALL
SELECT
    forward_op.run_id, forward_op.trace_id, forward_op.op_id, backward_op.op_id,
    'forward_backward', true
FROM staging.flow
INNER JOIN staging.thread AS forward_thread
    ON
        flow.trace_id = forward_thread.trace_id
        AND flow.source_pid = forward_thread.pid
        AND flow.source_tid = forward_thread.tid
INNER JOIN staging.thread AS backward_thread
    ON
        flow.trace_id = backward_thread.trace_id
        AND flow.target_pid = backward_thread.pid
        AND flow.target_tid = backward_thread.tid
INNER JOIN staging.op AS forward_op
    ON
        forward_thread.thread_id = forward_op.thread_id
        AND flow.source_ns = forward_op.start_ns
INNER JOIN staging.op AS backward_op
    ON
        backward_thread.thread_id = backward_op.thread_id
        AND flow.target_ns = backward_op.start_ns
QUALIFY
    row_number() OVER (
        PARTITION BY flow.flow_id
        ORDER BY
            forward_op.end_ns DESC, forward_op.op_id,
            backward_op.end_ns DESC, backward_op.op_id
    ) = 1
UNION ALL
SELECT run_id, trace_id, source_op_id, target_op_id, 'data', true
FROM graph.data_edge
UNION ALL
SELECT run_id, trace_id, last_node_id, node_id, 'collective', false
FROM graph.collective
WHERE node_id <> last_node_id AND NOT is_eager
UNION ALL
SELECT run_id, trace_id, source_operation_id, operation_id, 'schedule', false
FROM graph.operation_edge
UNION ALL
SELECT run_id, trace_id, last_operation_id, operation_id, 'collective', false
FROM graph.operation
WHERE operation_id <> last_operation_id;
