-- Critical paths as intervals that partition their time: what the step, the trace or the
-- run was waiting for at each time. By default only variant 0 is included, as in
-- `critical_path.path`.
-- One row per variant (0 is measured) and interval of a path.
-- Key: variant_id, scope, path_id, start_ns.
CREATE VIEW critical_path.interval (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The run.
    run_id,
    -- The trace of the interval.
    trace_id,
    -- The step at whose end the path ends; NULL for a trace.
    step_id,
    -- [ns] Start; for a run's path by the run's clock, otherwise by the trace's.
    start_ns,
    -- [ns] End.
    end_ns,
    -- On the host: `host_op`, `launch`, `host_gap`, `data_loading`, `wait`. On a device:
    -- `kernel`, `memcpy`, `memset`, and for a collective `rank_wait` (until the last rank
    -- of the run arrived), `absent_rank_wait` (for ranks that are not in the run) and
    -- `communication` (the rest). Between them: `launch_delay`, `stream_gap`,
    -- `stream_wait`, `return`, `unexplained`, `before_trace`.
    kind,
    -- Op, call or GPU work that it belongs to.
    node_id,
    -- Host thread; NULL on a device.
    thread_id
) AS
SELECT
    0, scope, path_id, run_id, trace_id, step_id, start_ns, end_ns, kind, node_id, thread_id
FROM critical_path.measured_interval
UNION ALL
SELECT
    variant_id, scope, path_id, run_id, trace_id, path_id, start_ns, end_ns, kind, node_id,
    thread_id
FROM critical_path.simulated_interval
-- Parts that were not requested are not even planned.
WHERE getvariable('methods') IS NOT NULL;
