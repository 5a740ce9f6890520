-- The op that each node is for: an op itself, of a call the op around it, of GPU work the
-- op around its launch.
-- One row per op, call and GPU op.
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
    module_call_id
) AS
WITH
node AS (
    SELECT op_id AS node_id, name, NULL AS stream, op_id FROM staging.op
    UNION ALL
    SELECT call_id, name, NULL, op_id FROM staging.call
    UNION ALL
    SELECT gpu_op_id, name, stream, op_id FROM staging.gpu_op
)

SELECT node_id, node.name, node.stream, node.op_id, op.name, module_call_id
FROM node
LEFT JOIN staging.op AS op ON node.op_id = op.op_id
LEFT JOIN graph.op_module AS op_module ON node.op_id = op_module.op_id;
