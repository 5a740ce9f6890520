-- The compared paths, by kind of time and place. Runs of other software versions have other
-- kernel names and line numbers: GPU work has the place of its op, and functions are
-- without their lines.
-- One row per path, kind of time, module and place.
-- Key: trace_id, path_id, kind, module, place.
CREATE VIEW critical_path.compared_part (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The path, as in `critical_path.compared_path`.
    path_id,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- The module it belongs to, with its enclosing modules, if Python stacks were recorded.
    module,
    -- The op; for time outside ops, the call or the work; between ops, the Python function.
    place,
    -- [ns] The time on the path.
    time_ns
) AS
SELECT
    path.run_id,
    path.trace_id,
    path_id,
    kind,
    module,
    CASE
        WHEN kind = 'host_gap' THEN regexp_replace(frame, ':\d+\)$', ')')
        ELSE coalesce(op_name, name)
    END AS place,
    sum(interval.time_ns)::BIGINT
FROM critical_path.interval_place AS interval
INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
SEMI JOIN critical_path.compared_path AS compared
    ON path.trace_id = compared.trace_id AND path.path_id = compared.path_id
WHERE variant_id = 0 AND critical_path.bounds_period(scope, path.trace_id)
GROUP BY path.run_id, path.trace_id, path_id, kind, module, place;
