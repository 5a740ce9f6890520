-- What steps are compared by: the period, and each kind of time on its critical path.
-- One row per compared path and measure that it has.
-- Key: trace_id, path_id, measure.
CREATE VIEW critical_path.compared_measure (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The path, as in `critical_path.compared_path`.
    path_id,
    -- `period`, or a kind of time as in `critical_path.interval`.
    measure,
    -- [ns] The time.
    time_ns
) AS
SELECT run_id, trace_id, path_id, 'period', time_ns
FROM critical_path.compared_path
UNION ALL
SELECT run_id, trace_id, path_id, kind, sum(time_ns)::BIGINT
FROM critical_path.compared_part
GROUP BY run_id, trace_id, path_id, kind;
