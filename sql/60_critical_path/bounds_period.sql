-- Whether a path is one of those that say what a trace's time goes to: those of the periods
-- of its steps, or where it has none its own. None of its time is in two of them.
CREATE MACRO critical_path.bounds_period(
    -- Scope of the path, as in `critical_path.path`.
    path_scope,
    -- Its trace.
    path_trace_id
) AS (
    path_scope = 'period'
    OR path_scope = 'trace' AND path_trace_id NOT IN (SELECT trace_id FROM staging.step)
);
