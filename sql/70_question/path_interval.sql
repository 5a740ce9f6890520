-- What does each critical path wait for, interval by interval? By default as measured;
-- requested methods and scenarios are added (`tracedb critical-path --method`).
-- One row per scenario, method and interval of a path.
-- Key: scenario, method, scope, path_id, offset_ns.
CREATE VIEW question.path_interval (
    -- The scenario; `baseline` has no edits.
    scenario,
    -- `measured`, or the method, as in `prediction.method`.
    method,
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The step at whose end the path ends; NULL for a trace.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Start, from the path's start.
    offset_ns,
    -- [ns] Duration.
    time_ns,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- Name of the op, call or GPU work that it belongs to.
    name,
    -- The op of that node: the enclosing op of a call, or the op around a launch.
    op,
    -- Module that it belongs to, with its enclosing modules, if Python stacks were
    -- recorded.
    module,
    -- Enclosing Python function, with its file and line (`staging.python_frame`), if stacks
    -- were recorded; between ops otherwise the user range (`graph.open_range`).
    frame,
    -- Rank, and the role of the host thread or the number of the stream.
    lane,
    -- The trace that it is in.
    trace_id,
    -- Its rank.
    rank,
    -- The op, call or GPU work.
    node_id
) AS
SELECT
    scenario,
    method,
    interval.scope,
    interval.path_id,
    path.step_id,
    step,
    interval.start_ns - path.start_ns,
    interval.end_ns - interval.start_ns,
    interval.kind,
    interval.name,
    op_name,
    module,
    frame,
    concat_ws(
        ' ',
        'rank ' || rank,
        role || ' thread',
        CASE WHEN interval.thread_id IS NULL THEN 'stream ' || stream END
    ),
    interval.trace_id,
    rank,
    interval.node_id
FROM critical_path.interval_op AS interval
INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
INNER JOIN prediction.variant AS variant ON interval.variant_id = variant.variant_id
INNER JOIN staging.trace ON interval.trace_id = staging.trace.trace_id
LEFT JOIN staging.thread AS thread ON interval.thread_id = thread.thread_id
ORDER BY interval.variant_id, interval.scope, interval.path_id, interval.start_ns;
