-- What was repaired or dropped while a file was read.
-- One row per kind of issue and file.
-- Key: trace_id, kind.
CREATE VIEW staging.ingest_issue (
    -- The run.
    run_id,
    -- The file.
    trace_id,
    -- Kind of issue.
    kind,
    -- How often it occurred.
    occurrences,
    -- One line for the reader.
    detail,
    -- Whether it is only a note: nothing was repaired, dropped or unreadable.
    is_note
) AS
SELECT
    run_id,
    trace_id,
    kind,
    occurrences,
    detail,
    starts_with(kind, 'kept with the first process')
FROM raw.ingest_issue
INNER JOIN raw.trace USING (trace_id);
