-- The intervals of the critical paths with their op and module: for a call the enclosing
-- op, for GPU work the op around its launch; and with the Python function in which these
-- started. Where the host is in no op or call, measured intervals are divided by the
-- function and module that are open; predicted ones have neither.
-- One row per variant (0 is measured), interval of a path, function and module.
-- Key: variant_id, scope, path_id, start_ns, frame, module.
CREATE VIEW critical_path.interval_place (
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
    -- were recorded; between ops otherwise the user range, as in `graph.open_range`.
    frame,
    -- [ns] The part of the interval that is spent there.
    time_ns
) AS
WITH
interval AS (
    SELECT
        interval.*,
        critical_path.own_ns(start_ns, scope, shift_ns) AS own_start_ns,
        critical_path.own_ns(end_ns, scope, shift_ns) AS own_end_ns
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
    CASE WHEN interval.node_id IS NULL THEN place.module ELSE module_call.path END,
    CASE WHEN interval.node_id IS NULL THEN place.frame ELSE frame.name END,
    coalesce(place.time_ns, interval.end_ns - interval.start_ns)
FROM interval
LEFT JOIN critical_path.gap_place AS place
    ON
        CASE WHEN variant_id = 0 AND interval.node_id IS NULL THEN interval.thread_id END
        = place.thread_id
        AND own_start_ns = place.start_ns
        AND own_end_ns = place.end_ns
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
    ON node.thread_id = frame.thread_id AND node.at_ns >= frame.at_ns;
