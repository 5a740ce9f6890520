-- Ops of libraries that pass some of their arguments once (`prediction.memory_op`): the bytes
-- of what they read and write. Indices, scales and tables of angles are ignored, unless they
-- are results.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_memory (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Elements written.
    elements,
    -- Tensors read.
    inputs,
    -- Tensors written.
    outputs,
    -- Elements of a row, of ops whose kernels go row by row.
    width,
    -- [B] Total bytes read.
    input_bytes,
    -- [B] Total bytes written.
    output_bytes,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
named AS (
    SELECT trace_id, name, bare_name, memory_op.*
    FROM prediction.op_name
    INNER JOIN prediction.memory_op ON regexp_full_match(bare_name, pattern)
),

placed AS (
    SELECT
        shape.op_id, shape.run_id, shape.trace_id, shape.concrete_inputs,
        shape.is_dtype_known,
        named.* EXCLUDE (trace_id, name),
        list_transform(tensors, lambda t, n: {
            'place': CASE WHEN contains(name, '::') THEN t.argument ELSE n - 1 END,
            'dims': t.dims, 'elements': t.elements, 'stored': t.distinct,
            'size': t.element.size, 'type': t.element.name
        }) AS placed
    FROM prediction.op_shape AS shape
    INNER JOIN named USING (trace_id, name)
    WHERE is_complete
),

found AS (
    SELECT
        *,
        [t for t in placed if t.place = read_places[1]][1] AS source,
        [t for t in placed if t.place = written_places[1]][1] AS target,
        [t for t in placed if t.place = row_place][1] AS row_vector,
        [t for t in placed if t.place = width_place][1] AS wide
    FROM placed
),

passed AS (
    SELECT
        *,
        coalesce(try_cast(concrete_inputs ->> head_place AS BIGINT), source.dims[-1]) AS head,
        -- [1] The part of the arguments that is passed.
        coalesce(least(row_vector.elements / nullif(source.dims[1], 0), 1), 1)
        * coalesce(least(wide.dims[-1] / nullif(head, 0), 1), 1) AS share
    FROM found
    WHERE source IS NOT NULL AND target IS NOT NULL
),

-- An argument that is absent is neither read nor written; the first of each must be there.
counted AS (
    SELECT
        *,
        list_sum(list_transform(
            read_places,
            lambda place: coalesce(list_sum([t.stored for t in placed if t.place = place]), 0)
        )) AS all_read_bytes,
        list_transform(
            written_places,
            lambda place: coalesce(list_sum([t.elements for t in placed if t.place = place]), 0)
        ) AS written_elements,
        list_transform(
            coalesce(type_places, written_places),
            lambda place: coalesce(
                element_bytes, [t.size for t in placed if t.place = place][1], 0
            )
        ) AS written_sizes
    FROM passed
),

problem AS (
    SELECT
        * EXCLUDE (op, element_bytes),
        coalesce(op, regexp_extract(bare_name, '(\w+)$', 1)) AS op,
        source.type AS dtype,
        (share * list_sum(written_elements))::BIGINT AS elements,
        -- A gate counts as an input of its own.
        CASE op WHEN 'silu_mul' THEN 2 ELSE len(read_places) END AS inputs,
        len(written_places) AS outputs,
        CASE op WHEN 'silu_mul' THEN target.dims[-1] END AS width,
        (share * all_read_bytes)::BIGINT AS input_bytes,
        (share * list_dot_product(written_elements::DOUBLE [], written_sizes::DOUBLE []))::BIGINT
        AS output_bytes,
        is_dtype_known AS is_exact
    FROM counted
)

SELECT
    op_id, run_id, trace_id, family, op, dtype,
    elements,
    inputs,
    outputs,
    width,
    input_bytes,
    output_bytes,
    elements::DOUBLE * coalesce(element_flops, 1) AS flops,
    input_bytes::BIGINT AS read_bytes,
    output_bytes::BIGINT AS written_bytes,
    is_exact
FROM problem;
