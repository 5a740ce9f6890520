-- What does each module cost, forward and backward?
-- One row per trace, module and pass. Needs a trace with Python stacks.
-- Key: trace_id, module, is_backward.
-- Counts: graph.op_module.
CREATE VIEW question.module (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- The module, with its enclosing modules.
    module,
    -- Whether it is the backward pass.
    is_backward,
    -- Its calls that run these ops themselves, without those of submodules.
    call_count,
    -- Its ops.
    op_count,
    -- [ns] GPU work launched by its ops.
    gpu_time_ns,
    -- [ns] Its part of the measured critical paths of the steps, or without steps, of the
    -- trace.
    path_time_ns
) AS
WITH
launched AS (
    SELECT op_id, sum(end_ns - start_ns) AS gpu_time_ns
    FROM staging.gpu_op
    WHERE op_id IS NOT NULL
    GROUP BY op_id
),

on_path AS (
    SELECT op_id, sum(end_ns - start_ns) AS path_time_ns
    FROM critical_path.interval_op
    WHERE variant_id = 0 AND critical_path.tells_of_trace(scope, trace_id)
    GROUP BY op_id
)

SELECT
    op_module.trace_id,
    rank,
    module_call.path AS module,
    is_backward,
    count(DISTINCT module_call_id),
    count(*),
    coalesce(sum(gpu_time_ns), 0)::BIGINT AS gpu_time_ns,
    coalesce(sum(path_time_ns), 0)::BIGINT AS path_time_ns
FROM graph.op_module
INNER JOIN staging.module_call USING (module_call_id)
INNER JOIN staging.trace ON op_module.trace_id = staging.trace.trace_id
LEFT JOIN launched ON op_module.op_id = launched.op_id
LEFT JOIN on_path ON op_module.op_id = on_path.op_id
GROUP BY ALL
ORDER BY op_module.trace_id, path_time_ns DESC, gpu_time_ns DESC, module, is_backward;
