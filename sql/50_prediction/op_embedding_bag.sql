-- Table lookups summed per bag, in one table (PyTorch) or several (FBGEMM). Forward: the
-- rows are read with 8-byte indices and one offset per bag, and one row per bag is written.
-- Backward, fused with the update: gradients of bags, indices and rows are read; the rows
-- are multiplied, added to and written. With older versions of FBGEMM, the profiler records
-- only the gradient of the result: sizes are those of the forward lookup in the trace with a
-- result of that size (`bag_lookup`); without such a lookup, one row per bag (possibly too
-- few). For several tables, `width` is the mean number of elements per row.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_embedding_bag (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `embedding_bag` or `embedding_bag_backward`.
    family,
    -- `sum` or `mean`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Tables.
    tables,
    -- Rows of each table; NULL if not recorded.
    table_rows,
    -- Elements per row.
    width,
    -- Bags of each table.
    bags,
    -- Mean number of rows per bag.
    pooling,
    -- Rows looked up.
    rows,
    -- Distinct rows looked up, over all tables.
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
bag AS (
    SELECT
        *,
        regexp_full_match(bare_name, '_embedding_bag.*') AS is_one_table,
        regexp_matches(bare_name, 'backward|LookupFunction') AS is_backward,
        CASE WHEN is_backward THEN '$[7]' ELSE '$[4]' END AS mode_ordinal,
        coalesce(results[1], tensors[1]) AS result
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name,
            '_embedding_bag(_forward_only|_dense_backward)?'
            || '|fbgemm::.*embedding_(codegen_(lookup|forward)|backward_codegen).*'
            || '|torch::autograd::CppNode<.*LookupFunction.*'
        )
),

seen AS (
    SELECT
        trace_id,
        result_elements,
        min(struct_pack(rows, all_bags, tables, width, all_rows)) AS lookup
    FROM prediction.bag_lookup
    GROUP BY ALL
),

counted AS (
    SELECT
        bag.*,
        rows,
        all_bags,
        tables,
        width,
        all_rows,
        true AS is_exact
    FROM bag
    INNER JOIN prediction.bag_lookup USING (op_id)
    UNION ALL BY NAME
    SELECT
        bag.*,
        coalesce(lookup.rows, result.dims[1]) AS rows,
        coalesce(lookup.all_bags, result.dims[1]) AS all_bags,
        coalesce(lookup.tables, 1) AS tables,
        TRY(coalesce(lookup.width, result.elements // result.dims[1])) AS width,
        lookup.all_rows,
        lookup IS NOT NULL AS is_exact
    FROM bag
    LEFT JOIN seen
        ON bag.trace_id = seen.trace_id AND result.elements = result_elements
    WHERE bare_name LIKE '%LookupFunction%'
    UNION ALL BY NAME
    SELECT
        *,
        tensors[2].elements AS rows,
        CASE
            WHEN is_backward THEN TRY(tensors[1].elements // tensors[1].dims[-1])
            ELSE tensors[3].elements
        END AS all_bags,
        1 AS tables,
        tensors[1].dims[-1] AS width,
        CASE
            WHEN is_backward THEN try_cast(concrete_inputs ->> 5 AS BIGINT)
            ELSE tensors[1].dims[1]
        END AS all_rows,
        true AS is_exact
    FROM bag
    WHERE is_one_table
),

problem AS (
    SELECT
        * REPLACE (is_exact AND is_dtype_known AS is_exact),
        CASE
            WHEN is_one_table AND concrete_inputs ->> mode_ordinal = '1' THEN 'mean'
            ELSE 'sum'
        END AS op,
        'embedding_bag' || CASE WHEN is_backward THEN '_backward' ELSE '' END AS family,
        model_dtype AS dtype,
        TRY(all_rows // nullif(tables, 0)) AS table_rows,
        all_bags / nullif(tables, 0) AS bags,
        rows / nullif(all_bags, 0) AS pooling,
        NULL::BIGINT AS distinct_rows
    FROM counted
)

SELECT
    op_id, run_id, trace_id, family, op, dtype,
    coalesce(tables, 1) AS tables, try_cast(table_rows AS BIGINT) AS table_rows,
    try_cast(round(width) AS BIGINT) AS width,
    try_cast(bags AS BIGINT) AS bags,
    try_cast(round(pooling) AS BIGINT) AS pooling,
    try_cast(lookups AS BIGINT) AS rows,
    try_cast(round(met) AS BIGINT) AS distinct_rows,
    (CASE family WHEN 'embedding_bag' THEN 1 ELSE 2 END) * lookups * width AS flops,
    try_cast(
        (lookups + CASE family WHEN 'embedding_bag' THEN 0 ELSE summed END)
        * width * element_bytes + index_bytes AS BIGINT
    ) AS read_bytes,
    try_cast(
        (CASE family WHEN 'embedding_bag' THEN summed ELSE lookups END)
        * width * element_bytes AS BIGINT
    ) AS written_bytes,
    try_cast((met + summed) * width * element_bytes + index_bytes AS BIGINT)
    AS footprint_bytes,
    is_exact
FROM (
    SELECT
        *,
        coalesce(tables, 1)::DOUBLE * bags AS summed,
        coalesce(rows, summed * pooling) AS lookups,
        lookups / coalesce(tables, 1) AS of_table,
        8 * (lookups + summed) AS index_bytes,
        greatest(coalesce(distinct_rows, round(coalesce(tables, 1) * (
            CASE
                WHEN table_rows IS NULL THEN of_table
                -- The same for few of many, where the power loses precision.
                WHEN of_table < 1e-4 * table_rows
                    THEN of_table - of_table * (of_table - 1) / 2 / table_rows
                ELSE table_rows * (1 - pow(1 - 1 / table_rows::DOUBLE, of_table))
            END
        ))), 1) AS met
    FROM problem
);
