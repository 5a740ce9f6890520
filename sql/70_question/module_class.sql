-- What do equal modules cost together, such as the attention of all layers? Like
-- `question.module_tree`, summed over the modules whose paths have the same classes. The
-- last row of a trace is work outside any module.
-- One row per trace and path of classes. Needs a trace with Python stacks.
-- Key: trace_id, module.
CREATE VIEW question.module_class (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- The modules, with those that enclose them; `*` stands for the number of each. NULL
    -- for work outside any module.
    module,
    -- The modules.
    module_count,
    -- Their calls.
    call_count,
    -- [ns] Part of the critical paths of the steps' periods, or without steps, of the
    -- trace; including submodules.
    path_ns,
    -- [1] Its share of these paths.
    path_share,
    -- [ns] The part of this time outside submodules.
    own_path_ns,
    -- [1] The share of all GPU work of the trace, forward and backward.
    gpu_share,
    -- [ns] GPU work launched by forward ops, including submodules.
    gpu_forward_ns,
    -- [ns] The part of this time for their own ops.
    own_gpu_forward_ns,
    -- [ns] GPU work launched by backward ops, including submodules.
    gpu_backward_ns,
    -- [ns] The part of this time for their own forward ops.
    own_gpu_backward_ns,
    -- [ns] Host time of their calls: forward, including submodules.
    forward_ns,
    -- [ns] The part of this time outside submodules.
    own_forward_ns,
    -- [ns] Host time of the top-level ops of their backward pass, including submodules.
    backward_ns,
    -- [ns] The part of this time for their own forward ops.
    own_backward_ns
) AS
WITH
-- Modules with the same classes in their paths are never inside each other.
summed AS (
    SELECT
        trace_id,
        rank,
        staging.module_class(module) AS class,
        count(module) AS module_count,
        sum(call_count) AS call_count,
        sum(path_ns) AS path_ns,
        sum(own_path_ns) AS own_path_ns,
        sum(gpu_forward_ns) AS gpu_forward_ns,
        sum(own_gpu_forward_ns) AS own_gpu_forward_ns,
        sum(gpu_backward_ns) AS gpu_backward_ns,
        sum(own_gpu_backward_ns) AS own_gpu_backward_ns,
        sum(forward_ns) AS forward_ns,
        sum(own_forward_ns) AS own_forward_ns,
        sum(backward_ns) AS backward_ns,
        sum(own_backward_ns) AS own_backward_ns
    FROM question.module_tree
    GROUP BY trace_id, rank, class
)

SELECT
    trace_id,
    rank,
    class,
    module_count,
    call_count::BIGINT,
    path_ns::BIGINT,
    path_ns / nullif(sum(own_path_ns) OVER of_trace, 0),
    own_path_ns::BIGINT,
    (gpu_forward_ns + gpu_backward_ns)
    / nullif(sum(own_gpu_forward_ns + own_gpu_backward_ns) OVER of_trace, 0),
    gpu_forward_ns::BIGINT,
    own_gpu_forward_ns::BIGINT,
    gpu_backward_ns::BIGINT,
    own_gpu_backward_ns::BIGINT,
    forward_ns::BIGINT,
    own_forward_ns::BIGINT,
    backward_ns::BIGINT,
    own_backward_ns::BIGINT
FROM summed
WINDOW of_trace AS (PARTITION BY trace_id)
ORDER BY trace_id, class IS NULL, path_ns DESC, forward_ns DESC, class;
