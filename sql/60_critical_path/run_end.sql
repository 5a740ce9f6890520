-- How much later each rank's end of a step may be without delaying that of the run: a step
-- of a run ends on the rank that finishes last. In traces without steps, likewise for their
-- ends.
-- One row per path used for the slack of a trace.
-- Key: scope, path_id.
CREATE VIEW critical_path.run_end (
    -- `step`, or `trace` if there are no steps.
    scope,
    -- The path, as in `critical_path.measured_path`.
    path_id,
    -- The trace it ends in.
    trace_id,
    -- The host thread on which it ends; NULL on a device.
    thread_id,
    -- The GPU work with which it ends; NULL on the host.
    gpu_op_id,
    -- [ns] End, by the clock of the trace.
    end_ns,
    -- [ns] How much earlier that is than on the last rank.
    slack_ns
) AS
SELECT
    scope,
    path_id,
    path.trace_id,
    thread_id,
    gpu_op_id,
    end_ns,
    max(end_ns + trace.shift_ns) OVER (PARTITION BY path.run_id, scope, step)
    - (end_ns + trace.shift_ns)
FROM critical_path.measured_path AS path
INNER JOIN critical_path.run_trace AS trace ON path.trace_id = trace.trace_id
WHERE critical_path.tells_of_trace(scope, path.trace_id);
