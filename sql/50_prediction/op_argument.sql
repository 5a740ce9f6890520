-- Recorded arguments and results of the ops that launch GPU work, and of those that compute
-- on the host of a trace without any: from the execution graph if one is paired, otherwise
-- from the profiler. The two halves of an old convolution's backward pass use those of
-- their parent op, which names all three tensors (input, gradient of the output, weight). Sparse
-- tensors have the dimensions of their values (`prediction.sparse_op`), and so has a dense one of
-- the same size, of which as much is touched.
-- One row per such op.
-- Key: op_id.
CREATE VIEW prediction.op_argument (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name.
    name,
    -- `execution_graph` or `profiler`.
    source,
    -- Dimensions of its arguments, as a JSON list of lists; NULL if not recorded.
    input_dims,
    -- Types of its arguments, as a JSON list.
    input_types,
    -- Strides of its arguments, as a JSON list of lists; NULL if not recorded.
    input_strides,
    -- Dimensions of its results; NULL if not recorded.
    output_dims,
    -- Types of its results.
    output_types,
    -- Values of its scalar arguments, as a JSON list; NULL if not recorded.
    concrete_inputs
) AS
WITH
working AS (
    SELECT DISTINCT trace_id, op_id
    FROM staging.gpu_op
    WHERE op_id IS NOT NULL
    UNION ALL
    SELECT trace_id, op_id
    FROM staging.op
    ANTI JOIN staging.gpu_op USING (trace_id)
    WHERE NOT is_annotation
)

SELECT
    op.op_id,
    op.run_id,
    op.trace_id,
    op.name,
    CASE WHEN et.op_id IS NULL THEN 'profiler' ELSE 'execution_graph' END,
    CASE
        WHEN sparse.op_id IS NULL
            THEN coalesce(around.input_dims, et.input_dims, op.input_dims)::VARCHAR
        WHEN sparse.value_dims IS NOT NULL THEN to_json([
            if(dims = (op.input_dims ->> '$[0]'), sparse.value_dims, dims)::JSON
            for dims in from_json(op.input_dims, '["VARCHAR"]')
        ])::VARCHAR
    END,
    coalesce(around.input_types, et.input_types, op.input_types, '[]')::VARCHAR,
    coalesce(around.input_strides, et.input_strides, op.input_strides)::VARCHAR,
    et.output_dims::VARCHAR,
    et.output_types::VARCHAR,
    op.concrete_inputs
FROM working
INNER JOIN staging.op AS op USING (trace_id, op_id)
LEFT JOIN staging.op AS around
    ON
        op.parent_op_id = around.op_id
        AND around.name LIKE '%_convolution_backward'
        AND regexp_matches(op.name, '_convolution_backward_(input|weight)$')
LEFT JOIN staging.op_et AS et ON op.op_id = et.op_id
LEFT JOIN prediction.sparse_op AS sparse ON op.op_id = sparse.op_id
WHERE op.trace_id IN (SELECT trace_id FROM staging.computing);
