-- Whether a path is part of the breakdown of a trace's time: the paths of its steps'
-- periods or, without steps, its own. They do not overlap.
CREATE MACRO critical_path.bounds_period(
    -- Scope of the path, as in `critical_path.path`.
    path_scope,
    -- Its trace.
    path_trace_id
) AS (
    path_scope = 'period'
    OR path_scope = 'trace' AND path_trace_id NOT IN (SELECT trace_id FROM staging.step)
);
