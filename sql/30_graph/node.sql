-- Everything that takes time: ops, calls and user ranges on the host, and work on the
-- device; for tables of operations, the operations.
-- One row per event with a duration.
-- Key: node_id.
CREATE VIEW graph.node (
    -- The event.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `op`, `annotation`, `launch`, `wait`, `call` (any other), `kernel`, `memcpy`,
    -- `memset`, `other` (other work on a device) or `operation` (of a rank, in
    -- `staging.operation`).
    kind,
    -- Name.
    name,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Host thread; NULL on a device, and for operations.
    thread_id,
    -- Device; NULL on the host, and for operations.
    device,
    -- Stream of the device; NULL on the host, and for operations.
    stream
) AS
SELECT
    op_id, run_id, trace_id, CASE WHEN is_annotation THEN 'annotation' ELSE 'op' END,
    name, start_ns, end_ns, thread_id, NULL, NULL
FROM staging.op
UNION ALL
SELECT
    annotation_id, run_id, trace_id, 'annotation', name, start_ns, end_ns, thread_id,
    NULL, NULL
FROM staging.annotation
WHERE annotation_id NOT IN (SELECT op_id FROM staging.op WHERE is_annotation)
UNION ALL
SELECT
    call_id, run_id, trace_id, CASE WHEN kind = 'other' THEN 'call' ELSE kind END,
    name, start_ns, end_ns, thread_id, NULL, NULL
FROM staging.call
UNION ALL
SELECT
    gpu_op_id, run_id, trace_id, kind, name, start_ns, end_ns, NULL, device, stream
FROM staging.gpu_op
UNION ALL
SELECT operation_id, run_id, trace_id, 'operation', type, start_ns, end_ns, NULL, NULL, NULL
FROM staging.operation;
