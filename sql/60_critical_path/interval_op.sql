-- The intervals of the critical paths with their op, module and Python function, as in
-- `critical_path.interval_place`; an interval that is divided has the place with the most
-- of its time.
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
SELECT
    variant_id,
    scope,
    path_id,
    trace_id,
    start_ns,
    end_ns,
    kind,
    thread_id,
    node_id,
    name,
    stream,
    op_id,
    op_name,
    module,
    frame
FROM critical_path.interval_place
QUALIFY
    row_number() OVER (
        PARTITION BY variant_id, scope, path_id, start_ns
        ORDER BY time_ns DESC, frame NULLS LAST, module NULLS LAST
    ) = 1;
