-- The op that each node is for: an op itself, of a call the op around it, of GPU work the
-- op around its launch.
-- One row per op, call and piece of GPU work.
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
    SELECT launch_id, name, NULL, op_id FROM staging.launch
    UNION ALL
    SELECT kernel_id, name, stream, op_id FROM staging.kernel
)

SELECT node_id, node.name, node.stream, node.op_id, op.name, module_call_id
FROM node
LEFT JOIN staging.op AS op ON node.op_id = op.op_id
LEFT JOIN graph.op_module AS op_module ON node.op_id = op_module.op_id;
