-- Ops and GPU work, each with the properties that identify it in another run: for an op the
-- module, the pass, its name, the shapes of its arguments and its ordinal in the step; for
-- GPU work the op that launched it, and its ordinal among that op's work.
-- One row per op, and GPU op, in a step; in a trace without steps, for each.
-- Key: node_id.
CREATE VIEW critical_path.compared_work (
    -- The op or GPU op.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The step, as in `critical_path.compared_path`.
    path_id,
    -- `host` or `gpu`.
    device,
    -- The module, with its enclosing modules, if Python stacks were recorded.
    module,
    -- Whether it is in the backward pass of that module.
    is_backward,
    -- The op; NULL for GPU work not launched by one.
    op,
    -- Dimensions of its arguments, as a JSON list; NULL if not recorded.
    shape,
    -- Number of such ops in the step up to it.
    ordinal,
    -- For GPU work its ordinal among that of the op, from 1; 0 for the op itself.
    position,
    -- Name of the op or GPU op.
    name,
    -- [ns] Its time; for an op, its self time.
    time_ns
) AS
WITH
inner_op AS (
    SELECT parent_op_id AS op_id, sum(end_ns - start_ns) AS time_ns
    FROM staging.op
    WHERE parent_op_id IS NOT NULL
    GROUP BY parent_op_id
),

placed AS (
    SELECT node.node_id, node.trace_id, coalesce(step_id, node.trace_id) AS path_id
    FROM graph.node AS node
    LEFT JOIN graph.node_step AS node_step USING (node_id)
    WHERE
        step_id IN (SELECT step_id FROM staging.whole_step)
        OR node.trace_id NOT IN (SELECT trace_id FROM staging.step)
),

op AS (
    SELECT
        op.op_id,
        op.run_id,
        op.trace_id,
        path_id,
        module_call.path AS module,
        is_backward,
        op.name,
        op.input_dims::VARCHAR AS shape,
        row_number() OVER (
            PARTITION BY path_id, op.trace_id, module, is_backward, op.name, shape
            ORDER BY op.start_ns, op.op_id
        ) AS ordinal,
        greatest(op.end_ns - op.start_ns - coalesce(inner_op.time_ns, 0), 0)::BIGINT
        AS time_ns
    FROM staging.op AS op
    INNER JOIN placed ON op.op_id = placed.node_id
    LEFT JOIN inner_op USING (op_id)
    LEFT JOIN graph.op_module AS op_module USING (op_id)
    LEFT JOIN staging.module_call AS module_call USING (module_call_id)
    WHERE NOT is_annotation
),

work AS (
    SELECT
        work.*,
        path_id,
        row_number() OVER (
            PARTITION BY op_id, CASE WHEN op_id IS NULL THEN path_id END,
                CASE WHEN op_id IS NULL THEN name END
            ORDER BY start_ns, gpu_op_id
        ) AS ordinal
    FROM staging.gpu_op AS work
    INNER JOIN placed ON gpu_op_id = node_id
    WHERE kind <> 'other'
)

SELECT
    op_id, run_id, trace_id, path_id, 'host', module, is_backward, name, shape, ordinal, 0,
    name, time_ns
FROM op
UNION ALL
SELECT
    gpu_op_id,
    work.run_id,
    work.trace_id,
    coalesce(op.path_id, work.path_id),
    'gpu',
    module,
    is_backward,
    op.name,
    shape,
    CASE WHEN op.op_id IS NULL THEN work.ordinal ELSE op.ordinal END,
    CASE WHEN op.op_id IS NULL THEN 1 ELSE work.ordinal END,
    work.name,
    work.end_ns - work.start_ns
FROM work
LEFT JOIN op ON work.op_id = op.op_id;
