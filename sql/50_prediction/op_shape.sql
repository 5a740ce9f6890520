-- Shapes and types of the tensors of the ops that launch GPU work: from the execution graph
-- if one is paired, otherwise from the profiler.
-- One row per op that launches GPU work and has at least one tensor of known shape.
-- Key: op_id.
CREATE TABLE prediction.op_shape (
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
    -- Tensors among its arguments, in order; the tensors of a list one by one. `argument`
    -- counts from 0, `dims` are the sizes, `strides` how many elements apart the next ones
    -- along each of them lie (NULL: not recorded), `elements` the product of the sizes,
    -- `size` is in bytes, `distinct` of those that are stored: less if it is expanded;
    -- `element` is what each is (`prediction.op_signature`), if need be a guess.
    tensors,
    -- Tensors among its results, in the same form; empty if not recorded.
    results,
    -- [B] Element of the result: the largest of a floating type among its tensors.
    element_bytes,
    -- Type of that element, as the kernel models name it; otherwise the trace's typical
    -- one.
    model_dtype,
    -- [B] All tensors among the arguments.
    input_bytes,
    -- [B] The first argument that has tensors.
    first_bytes,
    -- [B] All results; NULL if not recorded.
    result_bytes,
    -- Elements of what its arguments broadcast to; those of the largest if they do not.
    broadcast_elements,
    -- Values of its scalar arguments, as a JSON list; NULL if not recorded.
    concrete_inputs,
    -- Whether every list of tensors has its shapes.
    is_complete,
    -- Whether the element size was recorded; otherwise it is the trace's typical one.
    is_dtype_known
) AS
WITH
described AS (
    FROM prediction.op_argument
    SEMI JOIN prediction.working_op USING (op_id)
),

parsed AS (
    SELECT * FROM prediction.op_signature
),

typical AS (
    SELECT
        trace_id,
        mode(element) AS element
    FROM described
    INNER JOIN parsed
        ON
            input_dims = dims AND input_types = types
            AND input_strides IS NOT DISTINCT FROM strides
    WHERE element.size <= 4
    GROUP BY trace_id
),

known AS (
    SELECT
        described.*,
        argument.* EXCLUDE (dims, types, strides),
        coalesce(
            argument.element, typical.element, {'size': 4, 'name': 'float32', 'unit': 'fp32'}
        ) AS widest
    FROM described
    INNER JOIN parsed AS argument
        ON
            input_dims = dims AND input_types = types
            AND input_strides IS NOT DISTINCT FROM strides
    LEFT JOIN typical USING (trace_id)
),

sized AS (
    SELECT
        known.* EXCLUDE (tensors),
        list_transform(known.tensors, lambda t: {
            'argument': t.argument,
            'dims': t.dims,
            'strides': t.strides,
            'elements': t.elements,
            'element': coalesce(t.element, known.widest),
            'size': t.elements * coalesce(t.element, known.widest).size,
            'distinct': t.distinct * coalesce(t.element, known.widest).size
        }) AS tensors,
        list_transform(coalesce(result.tensors, []), lambda t: {
            'argument': t.argument,
            'dims': t.dims,
            'strides': t.strides,
            'elements': t.elements,
            'element': coalesce(t.element, known.widest),
            'size': t.elements * coalesce(t.element, known.widest).size,
            'distinct': t.distinct * coalesce(t.element, known.widest).size
        }) AS results
    FROM known
    LEFT JOIN parsed AS result
        ON
            output_dims = result.dims AND output_types = result.types
            AND result.strides IS NULL
)

SELECT
    op_id,
    run_id,
    trace_id,
    name,
    source,
    tensors,
    results,
    widest.size,
    widest.name,
    list_sum([t.size for t in tensors])::BIGINT,
    list_sum([t.size for t in tensors if t.argument = tensors[1].argument])::BIGINT,
    list_sum([t.size for t in results])::BIGINT,
    broadcast_elements,
    concrete_inputs,
    is_complete,
    element IS NOT NULL
FROM sized;
