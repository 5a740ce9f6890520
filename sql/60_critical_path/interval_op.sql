-- The intervals of the critical paths with the op and the module that they are for: of a
-- call the op around it, of GPU work the op around its launch. Between ops the module is
-- the innermost that is open on the host thread.
-- One row per interval of a path.
-- Key: scope, path_id, start_ns.
CREATE VIEW critical_path.interval_op (
    -- `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The trace that the interval lies in.
    trace_id,
    -- [ns] Begin, as in `critical_path.interval`.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- The host thread; NULL on a device.
    thread_id,
    -- Op, call or GPU work that it belongs to.
    node_id,
    -- Its name.
    name,
    -- The stream that it ran on; NULL on the host.
    stream,
    -- The op.
    op_id,
    -- The op's name.
    op_name,
    -- The module, with those it lies in; where the Python stack was recorded.
    module
) AS
SELECT
    interval.scope,
    interval.path_id,
    interval.trace_id,
    interval.start_ns,
    interval.end_ns,
    interval.kind,
    interval.thread_id,
    node_id,
    coalesce(work.name, call.name, op.name),
    work.stream,
    op.op_id,
    op.name,
    module_call.path
FROM critical_path.interval
LEFT JOIN staging.launch AS call ON node_id = call.launch_id
LEFT JOIN staging.kernel AS work ON node_id = work.kernel_id
LEFT JOIN staging.op AS op ON coalesce(work.op_id, call.op_id, node_id) = op.op_id
LEFT JOIN graph.op_module AS op_module ON op.op_id = op_module.op_id
ASOF LEFT JOIN graph.open_module AS open
    ON interval.thread_id = open.thread_id AND interval.start_ns >= open.at_ns
LEFT JOIN staging.module_call AS module_call
    ON
        CASE WHEN op.op_id IS NULL THEN open.module_call_id ELSE op_module.module_call_id END
        = module_call.module_call_id;
