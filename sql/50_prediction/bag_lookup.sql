-- Lookups in several tables at once (FBGEMM) and their gradients with updates, with their
-- sizes; the widths of rows follow from the result. If results are not recorded (a profile
-- without an execution graph), lookups and gradients with the same number of bags per table
-- are paired by rank, if both have the same number of kinds: more tables have a wider result.
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
-- FBGEMM's versions, and the ops within a lookup, have different arguments, but their order
-- is the same: weights, where each table begins in them, where its columns begin in the
-- result (one element more), possibly where its rows begin, indices, and where bags begin.
listed AS (
    SELECT
        *,
        [t for t in tensors if t.element.name LIKE 'int%'] AS numbers,
        [
            i for i in range(2, len(numbers) + 1)
            if numbers[i].elements = numbers[i - 1].elements + 1
        ][1] AS columns_place,
        numbers[columns_place].elements - 1 AS tables,
        [
            i for i in range(columns_place + 2, len(numbers) + 1)
            if numbers[i].argument = numbers[i - 1].argument + 1
            AND coalesce(numbers[i + 1].argument != numbers[i].argument + 1, true)
            AND numbers[i].elements > tables
        ][1] AS bags_place,
        name LIKE '%backward%' AS is_backward
    FROM prediction.op_shape
    WHERE
        is_complete
        AND regexp_matches(
            name, '^fbgemm::.*embedding_(codegen_(lookup|forward)|backward_codegen)'
        )
),

lookup AS (
    SELECT
        *,
        CASE WHEN NOT is_backward THEN results[1] END AS made,
        coalesce(made, tensors[1]) AS result,
        numbers[bags_place - 1].elements AS rows,
        numbers[bags_place].elements - 1 AS all_bags,
        all_bags // nullif(tables, 0) AS table_bags,
        list_sum([
            t.elements for t in tensors
            if t.argument <= numbers[columns_place].argument
            AND len(t.dims) = 1
            AND t.element.name NOT LIKE 'int%'
        ]) AS weights
    FROM listed
    WHERE bags_place IS NOT NULL
),

gradient AS (
    SELECT
        trace_id,
        tensors[1] AS of_result,
        (of_result).dims[1] AS table_bags,
        TRY((of_result).elements // table_bags) AS result_columns
    FROM prediction.op_shape
    WHERE
        is_complete
        AND regexp_matches(
            name,
            '^torch::autograd::CppNode<.*LookupFunction|^fbgemm::.*embedding_backward_codegen'
        )
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
            WHEN is_backward OR result_bytes > 0 THEN result.elements
            ELSE table_bags * result_columns
        END AS elements
    FROM lookup
    LEFT JOIN lookup_kind USING (trace_id, table_bags, tables)
    LEFT JOIN gradient_kind USING (trace_id, table_bags, place, kinds)
)
WHERE mean_width IS NOT NULL;
