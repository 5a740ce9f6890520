-- Whether a path is used for the slack of a trace: the paths of its steps or, without
-- steps, its own.
CREATE MACRO critical_path.tells_of_trace(
    -- Scope of the path, as in `critical_path.path`.
    path_scope,
    -- Its trace.
    path_trace_id
) AS (
    path_scope = 'step'
    OR path_scope = 'trace' AND path_trace_id NOT IN (SELECT trace_id FROM staging.step)
);
