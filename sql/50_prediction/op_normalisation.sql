-- Layer, RMS, batch, group and instance norm, forward and backward: `rows` rows of `width`
-- elements that share a mean are read (backward with a gradient), and written. Scales,
-- shifts and statistics are ignored, and so is a possible second pass of kernels over a
-- row.
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
            regexp_extract(op, '(batch|layer|group|instance|rms)_norm')
            || CASE WHEN op LIKE '%backward%' THEN '_backward' ELSE '' END AS op
        ),
        prediction.mixed_bytes(tensors, element_bytes) AS large_bytes,
        tensors[1].elements AS elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'normalisation'
),

problem AS (
    SELECT
        * REPLACE (large_bytes AS input_bytes),
        model_dtype AS dtype,
        TRY(CASE
            WHEN op LIKE 'batch_norm%' THEN elements // tensors[1].dims[2]
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
        CASE WHEN large_bytes IS NOT NULL THEN first_bytes END AS output_bytes,
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
