-- Tensors concatenated or split: the dimensions before the concatenated one are `rows`
-- rows, with `width` elements in all tensors together. All of them are read and written. If
-- the dimension is not recorded, it is the first in which the tensors differ.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_concat (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `cat` or `split`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Tensors.
    tensors,
    -- Rows.
    rows,
    -- Elements per row.
    width,
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
        *,
        tensors[1].dims AS dims,
        TRY(list_extract(
            coalesce(
                try_cast(concrete_inputs ->> 1 AS BIGINT []),
                [try_cast(concrete_inputs ->> 1 AS BIGINT)]
            ), 1
        )) AS recorded,
        coalesce(
            CASE WHEN recorded < 0 THEN len(dims) + recorded ELSE recorded END,
            list_position(
                [list_unique([t.dims[n] for t in tensors]) > 1 for n in range(1, 9)],
                true
            ) - 1,
            1
        ) AS dim
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'concat'
),

problem AS (
    SELECT
        * REPLACE (
            CASE WHEN op LIKE '%split%' THEN 'split' ELSE 'cat' END AS op,
            len(prediction.first_list(tensors)) AS tensors
        ),
        model_dtype AS dtype,
        TRY(coalesce(list_product(dims[:dim]), 1)::BIGINT) AS rows,
        TRY(first_bytes // element_bytes // rows) AS width,
        is_dtype_known AS is_exact
    FROM shape
)

SELECT
    op_id, run_id, trace_id, 'concat' AS family, op, dtype,
    coalesce(tensors, 2) AS tensors,
    rows,
    width,
    0::DOUBLE AS flops,
    try_cast(rows::DOUBLE * width * element_bytes AS BIGINT) AS read_bytes,
    try_cast(rows::DOUBLE * width * element_bytes AS BIGINT) AS written_bytes,
    is_exact
FROM problem;
