-- Information on ops and annotations from the execution graph of the run: schema, shapes
-- including tensor lists, results, tensors by identity.
-- One row per op or annotation matched with a node.
-- Key: op_id.
CREATE TABLE staging.op_et (
    -- The op, or the annotation.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The node of the execution graph.
    et_node_id,
    -- Which occurrence of the execution graph in the trace; tensors are identified within
    -- one.
    occurrence,
    -- Schema of the operator; empty if the node is not one.
    op_schema,
    -- Dimensions of its arguments, as a JSON list of lists.
    input_dims,
    -- Types of its arguments, as a JSON list.
    input_types,
    -- Strides of its arguments, as a JSON list of lists, in elements; NULL if not recorded.
    input_strides,
    -- Arguments: a tensor is [tensor, storage, offset, elements, element size, device].
    inputs,
    -- Dimensions of its results.
    output_dims,
    -- Types of its results.
    output_types,
    -- Results, in the form of the arguments.
    outputs
) AS
SELECT
    raw.pairing.event_id AS op_id,
    raw.trace.run_id,
    raw.pairing.trace_id,
    et_node_id,
    occurrence,
    op_schema,
    input_dims,
    input_types,
    input_strides,
    inputs,
    output_dims,
    output_types,
    outputs
FROM raw.pairing
INNER JOIN raw.trace ON raw.pairing.trace_id = raw.trace.trace_id
INNER JOIN staging.et_op USING (et_node_id);
