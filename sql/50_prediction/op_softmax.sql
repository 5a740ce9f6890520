-- Softmax of rows and its gradient: `rows` rows of `width` elements along the softmax
-- dimension are read (backward those of two tensors) and written. Those that mask what lies
-- above the diagonal read half of it.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_softmax (
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
            -- Of autograd functions.
            CASE
                WHEN op LIKE '%SoftmaxBackward' THEN 'softmax_backward'
                WHEN op LIKE '%Softmax' THEN 'softmax'
                ELSE op
            END AS op
        ),
        prediction.mixed_bytes(tensors, element_bytes) AS large_bytes,
        contains(name, 'UpperTriang') AS is_triangular,
        CASE
            WHEN contains(name, 'Softmax') THEN NULL
            WHEN regexp_matches(name, 'softmax_backward') THEN concrete_inputs ->> 2
            ELSE concrete_inputs ->> 1
        END AS along,
        prediction.elements_along(tensors[1].dims, along) AS along_elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'softmax'
),

problem AS (
    SELECT
        * REPLACE (
            CASE
                WHEN is_triangular
                    THEN first_bytes * CASE op WHEN 'softmax' THEN 1 ELSE 2 END // 2
                ELSE large_bytes
            END AS input_bytes
        ),
        model_dtype AS dtype,
        TRY(coalesce(along_elements, tensors[1].dims[-1])) AS width,
        TRY(tensors[1].elements // width) AS rows,
        result_bytes AS output_bytes,
        is_dtype_known AS is_exact
    FROM shape
)

SELECT
    op_id, run_id, trace_id, 'softmax' AS family, op, dtype,
    rows,
    width,
    input_bytes,
    output_bytes,
    rows::DOUBLE * width * coalesce(element_flops, 1) AS flops,
    coalesce(input_bytes, try_cast(
        rows::DOUBLE * width * element_bytes * (1 + (op LIKE '%backward')::BIGINT) AS BIGINT
    )) AS read_bytes,
    coalesce(output_bytes, try_cast(rows::DOUBLE * width * element_bytes AS BIGINT))
    AS written_bytes,
    is_exact
FROM problem;
