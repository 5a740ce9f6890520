-- The prediction methods: what each takes as measured, and the source of everything else.
-- Stored methods are computed at ingest, the others on demand (`tracedb predict
-- --evaluate`).
-- One row per method.
-- Key: method.
CREATE VIEW prediction.method (
    -- Its name.
    method,
    -- Its ordinal among the methods, from 1.
    position,
    -- Source of host times in steps: NULL as measured; otherwise expected from similar
    -- spans in the `run` (`run_by_name`: similar only in type and name), in the
    -- `other_steps` of the trace, in the `other_ranks` of the run, in the `other_runs` of
    -- the database, or in a `library` of other databases (without one, what ships with
    -- tracedb).
    host_from,
    -- Whether kernel times come from models; otherwise as measured.
    models_kernels,
    -- Whether the graph is simulated; otherwise it is a separate algorithm
    -- (`critical_path.lin2022_time`).
    is_simulated,
    -- Whether it is stored.
    is_stored
) AS
SELECT *
FROM (
    VALUES
    ('replay', 1, NULL, false, true, true),
    ('statistics', 2, 'run', false, true, true),
    ('other_steps', 3, 'other_steps', false, true, false),
    ('other_ranks', 4, 'other_ranks', false, true, false),
    ('shared', 5, 'other_runs', false, true, false),
    ('full', 6, 'run', true, true, true),
    ('lin2022', 7, 'run', false, false, false),
    ('lin2022_as_profiled', 8, 'run', false, false, false),
    ('by_name', 9, 'run_by_name', false, true, false),
    ('library', 10, 'library', false, true, false)
) AS known (method, position, host_from, models_kernels, is_simulated, is_stored);
