-- Work of table lookups by index: `rows` rows of `width` elements of a table [.., ..] are
-- read with their indices and written, row by row or (`_embedding_bag`) summed per bag.
-- Backward: the gradient is read, and each row read, added to and written.
-- One row per lookup of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_embedding (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- What it is to the kernel models: `embedding`, `index_select`; of bags `sum`, `mean`.
    op,
    -- Rows that are looked up.
    rows,
    -- Elements of a row.
    width,
    -- Rows of the table; NULL where they are not recorded.
    table_rows,
    -- Bags that rows are summed in; NULL where they are not.
    bags,
    -- [FLOP] Additions into sums.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes
) AS
WITH
lookup AS (
    SELECT
        *,
        family LIKE '%backward' AS is_backward,
        name LIKE '%embedding_bag%' AS is_summed,
        CASE
            WHEN name = 'aten::index_select'
                THEN coalesce(try_cast(concrete_inputs ->> 1 AS BIGINT), 0)
            ELSE 0
        END AS dim,
        CASE name
            WHEN 'aten::embedding_dense_backward' THEN '$[2]'
            WHEN 'aten::_embedding_bag_dense_backward' THEN '$[5]'
        END AS table_ordinal,
        CASE WHEN is_backward THEN '$[7]' ELSE '$[4]' END AS mode_ordinal,
        tensors[1] AS first,
        tensors[2] AS indices
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'lookup' AND is_complete AND len(tensors) >= 2
),

measured AS (
    SELECT
        *,
        indices.elements AS rows,
        TRY(CASE
            WHEN is_backward THEN first.dims[-1]
            ELSE first.elements // first.dims[CASE WHEN dim < 0 THEN dim ELSE dim + 1 END]
        END) AS width,
        CASE
            WHEN is_backward THEN try_cast(concrete_inputs ->> table_ordinal AS BIGINT)
            ELSE TRY(first.dims[CASE WHEN dim < 0 THEN dim ELSE dim + 1 END])
        END AS table_rows,
        CASE
            WHEN is_summed AND is_backward THEN TRY(first.elements // first.dims[-1])
            WHEN is_summed THEN tensors[3].elements
        END AS bags
    FROM lookup
)

SELECT
    op_id,
    run_id,
    trace_id,
    CASE
        WHEN is_summed
            THEN CASE WHEN concrete_inputs ->> mode_ordinal = '1' THEN 'mean' ELSE 'sum' END
        WHEN name = 'aten::index_select' THEN 'index_select'
        ELSE 'embedding'
    END,
    rows,
    width,
    table_rows,
    bags,
    CASE WHEN is_backward OR is_summed THEN TRY(rows * width) ELSE 0 END,
    TRY(
        rows * width * element_bytes + input_bytes - first.size
        + (CASE WHEN is_backward THEN first.size ELSE 0 END)
    ),
    TRY(CASE
        WHEN is_summed AND NOT is_backward THEN bags * width * element_bytes
        ELSE rows * width * element_bytes
    END)
FROM measured
WHERE width IS NOT NULL;
