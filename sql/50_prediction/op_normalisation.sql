-- Layer, RMS, batch, group and instance norm, forward and backward: `rows` rows of `width`
-- elements that share a mean are read (backward with a gradient), and written. Scales,
-- shifts and statistics are ignored, and so is a possible second pass of kernels over a
-- row. Libraries' ops may add a residual, which is read and written, too, and quantize what
-- they write: to the type of their first argument, which is the result.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_normalisation (
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
    -- Rows.
    rows,
    -- Elements per row.
    width,
    -- [B] Total bytes read, if the sizes do not determine them; otherwise NULL.
    input_bytes,
    -- [B] Total bytes written, if the sizes do not determine them; otherwise NULL.
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
shape AS (
    SELECT
        * REPLACE (
            lower(regexp_extract(op, '(?i)(batch|layer|group|instance|rms)_?norm', 1)) || '_norm'
            || CASE WHEN op ILIKE '%backward%' THEN '_backward' ELSE '' END AS op
        ),
        contains(name, '::') AND NOT starts_with(name, 'aten::')
        AND NOT contains(name, 'backward') AS is_library,
        tensors[1].elements AS elements,
        [t.size for t in tensors if t.elements = tensors[1].elements] AS sizes,
        -- Of a library's op, of the type in which it computes.
        CASE WHEN is_library THEN list_max(sizes) END AS wide_bytes,
        first_bytes <> wide_bytes OR wide_bytes <> elements * element_bytes AS is_mixed,
        is_library
        AND (regexp_matches(op, '(^|_)add(_|$)') OR contains(op, 'quant') AND len(sizes) > 2)
        AS is_added,
        CASE
            WHEN NOT is_library THEN prediction.mixed_bytes(tensors, element_bytes)
        END AS large_bytes
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'normalisation'
),

problem AS (
    SELECT
        * REPLACE (
            CASE
                WHEN is_added THEN 2 * wide_bytes
                WHEN is_mixed THEN wide_bytes
                ELSE large_bytes
            END AS input_bytes
        ),
        CASE
            WHEN is_library
                THEN [
                    t.element.name for t in tensors
                    if t.elements = elements AND t.size = wide_bytes
                ][1]
            ELSE model_dtype
        END AS dtype,
        TRY(CASE
            WHEN is_library AND op = 'group_norm'
                THEN elements // (tensors[1].dims[1] * try_cast(concrete_inputs ->> 1 AS BIGINT))
            WHEN op LIKE 'batch_norm%' THEN elements // tensors[1].dims[2]
            WHEN is_library THEN tensors[1].dims[-1]
            WHEN op = 'layer_norm_backward' AND len(tensors) > 3
                THEN elements // tensors[3].elements
            WHEN op = 'layer_norm' AND len(tensors) > 1 THEN tensors[2].elements
            WHEN op = 'group_norm'
                THEN elements // (
                    try_cast(concrete_inputs ->> 3 AS BIGINT)
                    * try_cast(concrete_inputs ->> 6 AS BIGINT)
                )
            ELSE tensors[1].dims[-1]
        END) AS width,
        TRY(elements // width) AS rows,
        CASE
            WHEN is_added THEN wide_bytes + first_bytes
            WHEN large_bytes IS NOT NULL OR is_mixed THEN first_bytes
        END AS output_bytes,
        is_dtype_known AS is_exact
    FROM shape
)

SELECT
    op_id, run_id, trace_id, 'normalisation' AS family, op, dtype,
    rows,
    width,
    input_bytes,
    output_bytes,
    rows::DOUBLE * width * coalesce(element_flops, 1) AS flops,
    coalesce(input_bytes, try_cast(
        rows::DOUBLE * width * element_bytes
        * CASE WHEN op LIKE '%backward' THEN 2 ELSE 1 END AS BIGINT
    )) AS read_bytes,
    coalesce(output_bytes, try_cast(rows::DOUBLE * width * element_bytes AS BIGINT))
    AS written_bytes,
    is_exact
FROM problem;
