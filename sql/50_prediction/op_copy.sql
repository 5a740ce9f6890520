-- Copies that change the layout, not the type: `batch` matrices of `rows` rows of `width`
-- elements are read and written. (If contiguous, they would be a memcpy.)
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_copy (
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
    -- Matrices.
    batch,
    -- Rows of each.
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
problem AS (
    SELECT
        * EXCLUDE (input_bytes),
        model_dtype AS dtype,
        tensors[1].dims AS dims,
        coalesce(dims[-1], 1) AS width,
        coalesce(dims[-2], 1) AS rows,
        TRY(tensors[1].elements // width // rows) AS batch,
        -- Padding and repetition write more than they read.
        CASE
            WHEN NOT regexp_matches(op, 'copy|clone|contiguous') THEN result_bytes
        END AS output_bytes,
        -- What is expanded is read from what is stored.
        CASE WHEN tensors[-1].distinct < tensors[-1].size THEN tensors[-1].distinct END
        AS input_bytes,
        is_dtype_known AS is_exact
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE
        is_complete
        AND rule = 'copy'
        AND (
            NOT regexp_matches(op, 'copy|clone|contiguous') OR tensors[-1].size = first_bytes
        )
)

SELECT
    op_id, run_id, trace_id, 'copy' AS family, op, dtype,
    coalesce(batch, 1) AS batch,
    rows,
    width,
    input_bytes,
    output_bytes,
    0::DOUBLE AS flops,
    coalesce(
        input_bytes,
        try_cast(coalesce(batch, 1)::DOUBLE * rows * width * element_bytes AS BIGINT)
    ) AS read_bytes,
    coalesce(
        output_bytes,
        try_cast(coalesce(batch, 1)::DOUBLE * rows * width * element_bytes AS BIGINT)
    ) AS written_bytes,
    is_exact
FROM problem;
