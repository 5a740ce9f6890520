-- Runs: what was recorded together, with the names that people see.
-- One row per run.
-- Key: run_id.
CREATE VIEW staging.run (
    -- The run, as in `tracedb ... --run`.
    run_id,
    -- The name given on ingest, otherwise its file; of several traces the first, with the
    -- number of others.
    name,
    -- Traces, without execution graphs.
    trace_count
) AS
WITH
counted AS (
    SELECT
        run_id,
        run.name,
        bool_or(parse_filename(path) = run.name) AS is_of_file,
        count(*) FILTER (format <> 'et') AS trace_count
    FROM raw.run AS run
    INNER JOIN raw.trace USING (run_id)
    GROUP BY run_id, run.name
)

SELECT
    run_id,
    name
    || CASE
        WHEN is_of_file AND trace_count > 1 THEN format(' and {} more', trace_count - 1)
        ELSE ''
    END,
    trace_count
FROM counted;
