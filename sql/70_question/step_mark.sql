-- Which ranges could mark the steps of a trace that has none? What covers most of the trace
-- first; `tracedb ingest` takes it, also of traces that are there already.
-- One row per trace without steps and mark, and one where nothing could mark them.
-- Key: trace_id, mark.
CREATE VIEW question.step_mark (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its file.
    path,
    -- Option of `tracedb ingest` that takes the mark: `--step-mark` where ranges cover steps,
    -- `--step-from` where they begin them; NULL where nothing could mark steps.
    option,
    -- Regular expression of the names.
    mark,
    -- How many ranges there are.
    occurrences,
    -- [ns] How long all of them took together.
    total_ns
) AS
SELECT
    trace.run_id,
    trace.trace_id,
    path,
    '--step-' || suits AS option,
    mark,
    occurrences,
    total_ns
FROM staging.trace AS trace
LEFT JOIN staging.step_mark AS found ON trace.trace_id = found.trace_id AND suits IS NOT NULL
WHERE
    format = 'kineto'
    AND trace.trace_id NOT IN (SELECT trace_id FROM staging.step)
    AND trace.trace_id NOT IN (SELECT trace_id FROM staging.operation)
    AND trace.trace_id NOT IN (SELECT trace_id FROM staging.logged_collective)
ORDER BY
    trace.run_id,
    trace.trace_id,
    option DESC,
    CASE WHEN suits = 'from' THEN occurrences END,
    total_ns DESC,
    mark;
