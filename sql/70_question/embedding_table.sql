-- Which embedding tables does a step look up? For lookups in several tables at once
-- (FBGEMM), sizes are means. `tracedb shard` distributes those of one step over ranks. A
-- trace does not identify tables: one that is looked up twice in a step has two rows.
-- One row per op that looks up rows on a GPU, with its step.
-- Key: op_id.
CREATE VIEW question.embedding_table (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Rank of the trace.
    rank,
    -- The step in which the lookup started; NULL: none.
    step_id,
    -- Number of that step.
    step,
    -- The op.
    op_id,
    -- Tables it looks up.
    tables,
    -- Rows of each table; NULL if not recorded.
    rows,
    -- Elements per row.
    width,
    -- Bags of each table, in which rows are summed; for plain lookups, rows.
    bags,
    -- Mean number of rows per bag.
    pooling,
    -- Type of the elements, as the kernel models name it.
    dtype
) AS
SELECT
    problem.run_id,
    problem.trace_id,
    trace.rank,
    within.step_id,
    step.step,
    problem.op_id,
    coalesce(problem.tables, 1) AS tables,
    problem.table_rows,
    problem.width,
    coalesce(problem.bags, problem.rows) AS bags,
    problem.rows / nullif(tables * bags, 0) AS pooling,
    problem.dtype
FROM prediction.op_problem AS problem
INNER JOIN staging.trace AS trace USING (trace_id)
LEFT JOIN graph.node_step AS within
    ON problem.op_id = within.node_id AND problem.trace_id = within.trace_id
LEFT JOIN staging.step AS step ON within.step_id = step.step_id
WHERE
    problem.family = 'embedding_bag'
    OR problem.family = 'embedding' AND problem.op = 'embedding'
ORDER BY problem.trace_id, problem.op_id;
