-- The op of each node: an op itself, the enclosing op of a call, the op around the launch
-- of GPU work, the op that posts a message on the CPU.
-- One row per op, call, GPU op and such message.
-- Key: node_id.
CREATE VIEW graph.node_op (
    -- The node.
    node_id,
    -- Its name.
    name,
    -- The stream that it ran on; NULL on the host.
    stream,
    -- The op.
    op_id,
    -- The op's name.
    op_name,
    -- The call of the module that the op belongs to (`graph.op_module`).
    module_call_id,
    -- Host thread that it ran on, or that launched it; NULL if the launch is unknown.
    thread_id,
    -- [ns] Start there.
    at_ns
) AS
WITH
node AS (
    SELECT op_id AS node_id, name, NULL AS stream, op_id, thread_id, start_ns AS at_ns
    FROM staging.op
    UNION ALL
    SELECT call_id, name, NULL, op_id, thread_id, start_ns
    FROM staging.call
    UNION ALL
    SELECT
        gpu_op_id, work.name, stream, work.op_id, launch.thread_id, launch.start_ns
    FROM staging.gpu_op AS work
    LEFT JOIN staging.call AS launch USING (call_id)
    UNION ALL
    SELECT annotation_id, name, NULL, op_id, thread_id, start_ns
    FROM staging.posted_message
)

SELECT
    node_id,
    node.name,
    node.stream,
    node.op_id,
    op.name,
    module_call_id,
    node.thread_id,
    at_ns
FROM node
LEFT JOIN staging.op AS op ON node.op_id = op.op_id
LEFT JOIN graph.op_module AS op_module ON node.op_id = op_module.op_id;
