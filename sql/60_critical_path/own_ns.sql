-- [ns] A time of a path by the clock of its trace: paths of runs have the run's clock.
CREATE MACRO critical_path.own_ns(
    -- [ns] The time.
    path_ns,
    -- Scope of the path, as in `critical_path.path`.
    path_scope,
    -- [ns] How far the trace's clock is moved to be the run's, as in `graph.clock`.
    clock_shift_ns
) AS (
    path_ns - CASE WHEN path_scope = 'run' THEN coalesce(clock_shift_ns, 0) ELSE 0 END
);
