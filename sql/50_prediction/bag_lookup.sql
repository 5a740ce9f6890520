-- Lookups in several tables at once (FBGEMM) with their sizes; the widths of rows follow
-- from the result. If results are not recorded (a profile without an execution graph),
-- lookups and gradients with the same number of bags per table are paired by rank, if both
-- have the same number of kinds: more tables have a wider result.
-- One row per such op with a known result, or its gradient.
-- Key: op_id.
CREATE VIEW prediction.bag_lookup (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Rows looked up.
    rows,
    -- Bags of all tables.
    all_bags,
    -- Tables.
    tables,
    -- Mean number of elements per row over the tables.
    width,
    -- Rows of all tables.
    all_rows,
    -- Elements of the result.
    result_elements
) AS
WITH
-- The table offsets come before the indices. The weights come first: for a dense lookup one
-- tensor, otherwise those on the host, on the device and managed.
lookup AS (
    SELECT
        *,
        CASE WHEN name LIKE '%dense_embedding%' THEN 7 ELSE 11 END AS index_ordinal,
        coalesce(results[1], tensors[1]) AS result,
        [t for t in tensors if t.argument = index_ordinal][1].elements AS rows,
        [t for t in tensors if t.argument = index_ordinal + 1][1].elements - 1 AS all_bags,
        [t for t in tensors if t.argument = index_ordinal - 5][1].elements - 1 AS tables,
        all_bags // nullif(tables, 0) AS table_bags,
        list_sum([t.elements for t in tensors if t.argument <= (index_ordinal - 7) // 2])
        AS weights
    FROM prediction.op_shape
    WHERE is_complete AND regexp_matches(name, '^fbgemm::.*embedding_codegen_(lookup|forward)')
),

gradient AS (
    SELECT
        trace_id,
        coalesce(results[1], tensors[1]) AS result,
        (result).dims[1] AS table_bags,
        TRY((result).elements // table_bags) AS result_columns
    FROM prediction.op_shape
    WHERE is_complete AND regexp_matches(name, '^torch::autograd::CppNode<.*LookupFunction')
),

-- Kinds of lookups and of gradients, each with its rank among those with the same number of
-- bags per table.
lookup_kind AS (
    SELECT
        trace_id, table_bags, tables,
        row_number() OVER (PARTITION BY trace_id, table_bags ORDER BY tables) AS place,
        count(*) OVER (PARTITION BY trace_id, table_bags) AS kinds
    FROM (SELECT DISTINCT trace_id, table_bags, tables FROM lookup WHERE tables > 0)
),

gradient_kind AS (
    SELECT
        trace_id, table_bags, result_columns,
        row_number() OVER (PARTITION BY trace_id, table_bags ORDER BY result_columns)
        AS place,
        count(*) OVER (PARTITION BY trace_id, table_bags) AS kinds
    FROM (SELECT DISTINCT trace_id, table_bags, result_columns FROM gradient)
)

SELECT
    op_id,
    run_id,
    trace_id,
    rows,
    all_bags,
    tables,
    elements / nullif(all_bags, 0) AS mean_width,
    weights // nullif(mean_width, 0),
    elements
FROM (
    SELECT
        lookup.*,
        CASE
            WHEN result_bytes > 0 THEN result.elements ELSE table_bags * result_columns
        END AS elements
    FROM lookup
    LEFT JOIN lookup_kind USING (trace_id, table_bags, tables)
    LEFT JOIN gradient_kind USING (trace_id, table_bags, place, kinds)
)
WHERE mean_width IS NOT NULL;
