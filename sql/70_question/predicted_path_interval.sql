-- What would each critical path wait for, moment by moment, as predicted?
-- One row per scenario, rung and interval of a path.
-- Key: scenario, rung, scope, path_id, offset_ns.
CREATE VIEW question.predicted_path_interval (
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.predicted_path`.
    path_id,
    -- The step at whose end the path ends.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Begin, from the path's begin.
    offset_ns,
    -- [ns] Duration.
    time_ns,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- Name of the op, call or GPU work that it belongs to.
    name,
    -- Op that this is of, the one around the call or the launch.
    op,
    -- Module of the op, with those it lies in; where the Python stack was recorded.
    module,
    -- Rank, and the role of the host thread or the number of the stream.
    lane,
    -- The trace that it lies in.
    trace_id,
    -- The op, call or GPU work.
    node_id
) AS
SELECT
    scenario,
    rung,
    interval.scope,
    interval.path_id,
    interval.path_id,
    path.step,
    interval.start_ns - path.start_ns,
    interval.end_ns - interval.start_ns,
    kind,
    node.name,
    op_name,
    module_call.path,
    concat_ws(
        ' ',
        'rank ' || rank,
        role || ' thread',
        CASE WHEN interval.thread_id IS NULL THEN 'stream ' || stream END
    ),
    interval.trace_id,
    interval.node_id
FROM critical_path.predicted_interval AS interval
INNER JOIN critical_path.predicted_path AS path USING (variant_id, scope, path_id)
INNER JOIN prediction.variant AS variant ON interval.variant_id = variant.variant_id
INNER JOIN staging.trace AS trace ON interval.trace_id = trace.trace_id
LEFT JOIN staging.thread AS thread ON interval.thread_id = thread.thread_id
LEFT JOIN graph.node_op AS node ON interval.node_id = node.node_id
LEFT JOIN staging.module_call AS module_call USING (module_call_id)
ORDER BY interval.variant_id, interval.scope, interval.path_id, interval.start_ns;
