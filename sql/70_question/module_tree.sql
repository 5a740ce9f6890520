-- What does each module cost, with and without its submodules, forward and backward, on the
-- host and on the GPU? The last row of a trace is work outside any module.
-- One row per trace and module. Needs a trace with Python stacks.
-- Key: trace_id, module.
CREATE VIEW question.module_tree (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- The module, with its enclosing modules; NULL for work outside any module.
    module,
    -- Number of enclosing modules.
    depth,
    -- Its calls.
    call_count,
    -- [ns] Host time of its calls: forward, including submodules.
    forward_ns,
    -- [ns] The part of this time outside submodules.
    own_forward_ns,
    -- [ns] Host time of the top-level ops of its backward pass, including submodules.
    backward_ns,
    -- [ns] The part of this time for its own forward ops.
    own_backward_ns,
    -- [ns] GPU work launched by forward ops, including submodules.
    gpu_forward_ns,
    -- [ns] The part of this time for its own ops.
    own_gpu_forward_ns,
    -- [ns] GPU work launched by backward ops, including submodules.
    gpu_backward_ns,
    -- [ns] The part of this time for its own forward ops.
    own_gpu_backward_ns,
    -- [ns] Part of the critical paths of the steps' periods, or without steps, of the
    -- trace; including submodules.
    path_ns,
    -- [ns] The part of this time outside submodules.
    own_path_ns
) AS
WITH
call AS (
    SELECT
        trace_id,
        path AS module,
        depth,
        module_call_id,
        start_ns,
        end_ns - start_ns AS forward_ns,
        parent_module_call_id
    FROM staging.module_call
),

within_call AS (
    SELECT parent_module_call_id AS module_call_id, sum(forward_ns) AS inner_ns
    FROM call
    WHERE parent_module_call_id IS NOT NULL
    GROUP BY parent_module_call_id
),

part AS (
    SELECT
        trace_id,
        module,
        forward_ns - coalesce(inner_ns, 0) AS own_forward_ns,
        0 AS own_backward_ns,
        0 AS own_gpu_forward_ns,
        0 AS own_gpu_backward_ns,
        0 AS own_path_ns
    FROM call
    LEFT JOIN within_call USING (module_call_id)
    UNION ALL
    SELECT op.trace_id, module, 0, op.end_ns - op.start_ns, 0, 0, 0
    FROM graph.op_module AS op_module
    INNER JOIN staging.op AS op ON op_module.op_id = op.op_id
    INNER JOIN call ON op_module.module_call_id = call.module_call_id
    WHERE is_backward AND is_top_level
    UNION ALL
    SELECT
        work.trace_id,
        module,
        0,
        0,
        CASE WHEN coalesce(is_backward, false) THEN 0 ELSE work.end_ns - work.start_ns END,
        CASE WHEN is_backward THEN work.end_ns - work.start_ns ELSE 0 END,
        0
    FROM staging.gpu_op AS work
    LEFT JOIN graph.op_module AS op_module ON work.op_id = op_module.op_id
    LEFT JOIN call ON op_module.module_call_id = call.module_call_id
    WHERE kind <> 'other'
    UNION ALL
    SELECT trace_id, module, 0, 0, 0, 0, end_ns - start_ns
    FROM critical_path.interval_op
    WHERE variant_id = 0 AND critical_path.bounds_period(scope, trace_id)
),

own AS (
    SELECT
        trace_id,
        module,
        sum(own_forward_ns) AS forward_ns,
        sum(own_backward_ns) AS backward_ns,
        sum(own_gpu_forward_ns) AS gpu_forward_ns,
        sum(own_gpu_backward_ns) AS gpu_backward_ns,
        sum(own_path_ns) AS path_ns
    FROM part
    WHERE trace_id IN (SELECT trace_id FROM call)
    GROUP BY trace_id, module
),

total AS (
    SELECT own.trace_id, around AS module, own.* EXCLUDE (trace_id, module)
    FROM own
    LEFT JOIN graph.module_within AS within
        ON own.trace_id = within.trace_id AND own.module = within.module
),

rolled AS (
    SELECT
        trace_id,
        module,
        sum(forward_ns) AS forward_ns,
        sum(backward_ns) AS backward_ns,
        sum(gpu_forward_ns) AS gpu_forward_ns,
        sum(gpu_backward_ns) AS gpu_backward_ns,
        sum(path_ns) AS path_ns
    FROM total
    GROUP BY trace_id, module
),

described AS (
    SELECT
        trace_id, module, any_value(depth) AS depth, count(*) AS call_count,
        min(start_ns) AS first_ns
    FROM call
    GROUP BY trace_id, module
)

SELECT
    rolled.trace_id,
    rank,
    rolled.module,
    depth,
    call_count,
    rolled.forward_ns::BIGINT,
    own.forward_ns::BIGINT,
    rolled.backward_ns::BIGINT,
    own.backward_ns::BIGINT,
    rolled.gpu_forward_ns::BIGINT,
    own.gpu_forward_ns::BIGINT,
    rolled.gpu_backward_ns::BIGINT,
    own.gpu_backward_ns::BIGINT,
    rolled.path_ns::BIGINT,
    own.path_ns::BIGINT
FROM rolled
INNER JOIN own
    ON rolled.trace_id = own.trace_id AND rolled.module IS NOT DISTINCT FROM own.module
INNER JOIN staging.trace AS trace ON rolled.trace_id = trace.trace_id
LEFT JOIN described
    ON rolled.trace_id = described.trace_id AND rolled.module = described.module
ORDER BY rolled.trace_id, first_ns NULLS LAST, depth, rolled.module;
