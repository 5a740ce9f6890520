-- Work of FBGEMM's lookups in several tables at once, summed per bag. Forward: `rows` rows
-- of `width` elements (the mean of the tables: elements of the result per bag) are read
-- with 8-byte indices and offsets, and one row per bag is written. Backward, where the
-- profiler records the gradient of the result only: rows, bags and tables are those of the
-- forward lookup in the trace whose result is of that size. The gradient is read, and each
-- row read and written; without such a lookup, one row per bag (that may be too few).
-- One row per such op of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_embedding_bag (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Whether it is the backward pass.
    is_backward,
    -- Rows that are looked up; NULL where it is not recorded.
    rows,
    -- Mean elements of a row; NULL where it is not recorded.
    width,
    -- Bags of all tables; NULL where it is not recorded.
    bags,
    -- Tables; NULL where it is not recorded.
    tables,
    -- Rows of all tables on the device; NULL where it is not recorded.
    table_rows,
    -- [FLOP] Additions into sums.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether rows and width are recorded.
    is_exact
) AS
WITH
bag AS (
    SELECT
        *,
        family = 'embedding_bag_backward' AS is_backward,
        CASE WHEN name LIKE '%dense_embedding%' THEN 7 ELSE 11 END AS index_ordinal,
        coalesce(results[1], tensors[1]).elements AS result_elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'bag' AND is_complete
),

-- Before the indices come the places where tables begin; the weights come first: of a
-- dense lookup one tensor, else those on the host, on the device and in managed memory.
forward AS (
    SELECT
        *,
        [t for t in tensors if t.argument = index_ordinal][1].elements AS rows,
        [t for t in tensors if t.argument = index_ordinal + 1][1].elements - 1 AS bags,
        [t for t in tensors if t.argument = index_ordinal - 5][1].elements - 1 AS tables,
        result_elements / nullif(bags, 0) AS width,
        list_sum([t.elements for t in tensors if t.argument <= (index_ordinal - 7) // 2])
        // nullif(width, 0) AS table_rows
    FROM bag
    WHERE NOT is_backward AND result_bytes > 0
),

seen AS (
    SELECT
        trace_id,
        result_elements,
        min({
            'rows': rows, 'bags': bags, 'tables': tables, 'width': width,
            'table_rows': table_rows
        }) AS lookup
    FROM forward
    GROUP BY trace_id, result_elements
),

counted AS (
    SELECT
        op_id, run_id, trace_id, element_bytes, is_backward, result_elements,
        rows, width, bags, tables, table_rows
    FROM forward
    WHERE width IS NOT NULL
    UNION ALL
    SELECT
        op_id, run_id, trace_id, element_bytes, is_backward, result_elements,
        lookup.rows, lookup.width, lookup.bags, lookup.tables, lookup.table_rows
    FROM bag
    LEFT JOIN seen USING (trace_id, result_elements)
    WHERE is_backward
),

sized AS (
    SELECT
        *,
        TRY((coalesce(rows * width, result_elements) * element_bytes)::BIGINT) AS row_bytes,
        result_elements * element_bytes AS result_bytes
    FROM counted
)

SELECT
    op_id,
    run_id,
    trace_id,
    is_backward,
    rows,
    width,
    bags,
    tables,
    TRY(table_rows::BIGINT),
    row_bytes // element_bytes,
    TRY(row_bytes + CASE WHEN is_backward THEN result_bytes ELSE 8 * (rows + bags + 1) END),
    CASE WHEN is_backward THEN row_bytes ELSE result_bytes END,
    rows IS NOT NULL
FROM sized;
