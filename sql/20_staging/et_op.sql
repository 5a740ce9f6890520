-- Nodes of execution graphs in one form for all schema versions: 1.0.1 has its fields on
-- the node, later ones in `inputs`, `outputs`, `attrs` and `ctrl_deps`.
-- One row per node.
-- Key: et_node_id.
CREATE VIEW staging.et_op (
    -- The node.
    et_node_id,
    -- The run.
    run_id,
    -- The execution graph it is from.
    trace_id,
    -- Number of the node in its file.
    id,
    -- Number of its parent node.
    parent_id,
    -- Name.
    name,
    -- Host thread, as the execution graph numbers it, from 1.
    tid,
    -- Start order; equal to the profiler's External id in newer pairs.
    rf_id,
    -- Sequence number that a forward op shares with its backward op.
    sequence_number,
    -- Its kind in PyTorch: 0 an op, 1 an autograd function, 7 a user range.
    scope,
    -- Schema of the operator; empty if the node is not one.
    op_schema,
    -- Arguments: a tensor is [tensor, storage, offset, elements, element size, device].
    inputs,
    -- Dimensions of the arguments, as a JSON list of lists.
    input_dims,
    -- Types of the arguments, as a JSON list.
    input_types,
    -- Strides of the arguments, as a JSON list of lists, in elements (from 1.1.1 on).
    input_strides,
    -- Results, in the form of the arguments.
    outputs,
    -- Dimensions of the results.
    output_dims,
    -- Types of the results.
    output_types,
    -- Further recorded data, as a JSON list of names and values: messages of collectives
    -- (from 1.1.0 on), what generated a kernel. NULL in 1.0.1.
    attributes,
    -- Whether it is something that ran: not a root of the process or of a thread.
    is_op
) AS
WITH
listed AS (
    SELECT
        et_node_id,
        from_json(node -> '$.attrs', '[{"name": "VARCHAR", "value": "VARCHAR"}]') AS attrs
    FROM raw.et_node
),

-- If an attribute occurs twice, the first counts.
attribute AS (
    SELECT
        et_node_id,
        list_filter(attrs, lambda a: a.name = 'tid')[1].value AS tid, -- noqa: PRS
        list_filter(attrs, lambda a: a.name = 'rf_id')[1].value AS rf_id,
        list_filter(attrs, lambda a: a.name = 'seq_id')[1].value AS seq_id,
        list_filter(attrs, lambda a: a.name = 'scope')[1].value AS scope,
        list_filter(attrs, lambda a: a.name = 'op_schema')[1].value AS op_schema
    FROM listed
)

SELECT
    et_node_id,
    raw.trace.run_id,
    trace_id,
    try_cast(node ->> '$.id' AS BIGINT),
    try_cast(coalesce(node ->> '$.ctrl_deps', node ->> '$.parent') AS BIGINT),
    node ->> '$.name' AS name,
    try_cast(coalesce(node ->> '$.tid', attribute.tid) AS BIGINT),
    try_cast(coalesce(node ->> '$.rf_id', attribute.rf_id) AS BIGINT),
    try_cast(coalesce(node ->> '$.seq_id', attribute.seq_id) AS BIGINT),
    try_cast(coalesce(node ->> '$.scope', attribute.scope) AS BIGINT),
    coalesce(node ->> '$.op_schema', attribute.op_schema),
    coalesce(node -> '$.inputs.values', node -> '$.inputs'),
    coalesce(node -> '$.inputs.shapes', node -> '$.input_shapes'),
    coalesce(node -> '$.inputs.types', node -> '$.input_types'),
    node -> '$.inputs.strides',
    coalesce(node -> '$.outputs.values', node -> '$.outputs'),
    coalesce(node -> '$.outputs.shapes', node -> '$.output_shapes'),
    coalesce(node -> '$.outputs.types', node -> '$.output_types'),
    node -> '$.attrs',
    NOT regexp_matches(
        name, '^\[pytorch\|profiler\|execution_(graph|trace)\|(process|thread)\]'
    )
FROM raw.et_node
INNER JOIN attribute USING (et_node_id)
INNER JOIN raw.trace USING (trace_id);
