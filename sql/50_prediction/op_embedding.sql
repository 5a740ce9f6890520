-- Table lookups by index: `rows` rows of `width` elements are read with their 8-byte
-- indices, and written individually. Backward, a gradient for each is read, and added into
-- the distinct rows of the table's gradient, which a complete op clears first (in a trace
-- that is a separate op: `cleared_rows` is 0 there). If the table's size is known, the
-- number of distinct rows is that expected by chance.
-- One row per lookup of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_embedding (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `embedding` or `embedding_backward`.
    family,
    -- `embedding` or `index_select`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Rows looked up.
    rows,
    -- Elements per row.
    width,
    -- Rows of the table; NULL if not recorded.
    table_rows,
    -- Rows of its gradient that are zeroed first.
    cleared_rows,
    -- Expected number of distinct rows looked up.
    distinct_rows,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- [B] Distinct memory touched.
    footprint_bytes,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
lookup AS (
    SELECT
        *,
        bare_name = 'embedding_dense_backward' AS is_backward,
        CASE
            WHEN bare_name = 'index_select'
                THEN coalesce(try_cast(concrete_inputs ->> 1 AS BIGINT), 0)
            ELSE 0
        END AS dim,
        tensors[1] AS first
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND len(tensors) >= 2
        AND bare_name IN ('index_select', 'embedding', 'embedding_dense_backward')
),

problem AS (
    SELECT
        *,
        CASE bare_name WHEN 'index_select' THEN 'index_select' ELSE 'embedding' END AS op,
        'embedding' || CASE WHEN is_backward THEN '_backward' ELSE '' END AS family,
        model_dtype AS dtype,
        tensors[2].elements AS rows,
        TRY(CASE
            WHEN is_backward THEN first.dims[-1]
            ELSE first.elements // first.dims[CASE WHEN dim < 0 THEN dim ELSE dim + 1 END]
        END) AS width,
        CASE
            WHEN is_backward THEN try_cast(concrete_inputs ->> 2 AS BIGINT)
            ELSE TRY(first.dims[CASE WHEN dim < 0 THEN dim ELSE dim + 1 END])
        END AS table_rows,
        0 AS cleared_rows,
        is_dtype_known AS is_exact
    FROM lookup
)

SELECT
    op_id, run_id, trace_id, family, op, dtype,
    rows,
    width,
    table_rows,
    try_cast(cleared AS BIGINT) AS cleared_rows,
    try_cast(round(met) AS BIGINT) AS distinct_rows,
    CASE family WHEN 'embedding' THEN 0 ELSE row_elements END AS flops,
    try_cast(row_elements * element_bytes + 8 * rows AS BIGINT) AS read_bytes,
    try_cast(element_bytes * (
        CASE family WHEN 'embedding' THEN row_elements ELSE (met + cleared) * width END
    ) AS BIGINT) AS written_bytes,
    try_cast((row_elements + met * width) * element_bytes + 8 * rows AS BIGINT)
    AS footprint_bytes,
    is_exact
FROM (
    SELECT
        *,
        rows::DOUBLE * width AS row_elements,
        CASE
            WHEN table_rows IS NULL THEN rows
            -- The same for few of many, where the power loses precision.
            WHEN rows < 1e-4 * table_rows THEN rows - rows::DOUBLE * (rows - 1) / 2 / table_rows
            ELSE table_rows * (1 - pow(1 - 1 / table_rows::DOUBLE, rows))
        END AS met,
        coalesce(cleared_rows, table_rows, 0) AS cleared
    FROM problem
);
