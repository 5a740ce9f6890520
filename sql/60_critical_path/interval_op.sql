-- The intervals of the critical paths with their op and module: for a call the enclosing
-- op, for GPU work the op around its launch; and with the Python function in which these
-- started. Between ops, module and function are the innermost open ones on the host thread,
-- only as measured: the function in the middle of the interval.
-- One row per variant (0 is measured) and interval of a path.
-- Key: variant_id, scope, path_id, start_ns.
CREATE VIEW critical_path.interval_op (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The trace of the interval.
    trace_id,
    -- [ns] Start, as in `critical_path.interval`.
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
    -- The module, with its enclosing modules, if Python stacks were recorded.
    module,
    -- The Python function, with its file and line, as in `staging.python_frame`, if stacks
    -- were recorded.
    frame
) AS
-- Times by the clock of the trace.
WITH
interval AS (
    SELECT
        interval.*,
        interval.start_ns
        - CASE scope WHEN 'run' THEN coalesce(shift_ns, 0) ELSE 0 END AS own_start_ns
    FROM critical_path.interval AS interval
    LEFT JOIN graph.clock USING (trace_id)
)

SELECT
    interval.variant_id,
    interval.scope,
    interval.path_id,
    interval.trace_id,
    interval.start_ns,
    interval.end_ns,
    interval.kind,
    interval.thread_id,
    interval.node_id,
    node.name,
    stream,
    op_id,
    op_name,
    module_call.path,
    frame.name
FROM interval
LEFT JOIN graph.node_op AS node ON interval.node_id = node.node_id
ASOF LEFT JOIN graph.open_module AS open
    ON
        CASE variant_id WHEN 0 THEN interval.thread_id END = open.thread_id
        AND own_start_ns >= open.at_ns
LEFT JOIN staging.module_call AS module_call
    ON
        CASE WHEN op_id IS NULL THEN open.module_call_id ELSE node.module_call_id END
        = module_call.module_call_id
ASOF LEFT JOIN graph.open_frame AS frame
    ON
        coalesce(
            node.thread_id, CASE variant_id WHEN 0 THEN interval.thread_id END
        ) = frame.thread_id
        AND coalesce(node.at_ns, own_start_ns + (interval.end_ns - interval.start_ns) // 2)
        >= frame.at_ns;
