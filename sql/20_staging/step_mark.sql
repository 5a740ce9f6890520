-- User ranges that could mark steps: names that differ in numbers alone are one mark.
-- One row per mark of a trace, the one that covers most time first.
-- Key: trace_id, mark.
CREATE VIEW staging.step_mark (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Regular expression of the names: what `tracedb ingest --step-mark` takes.
    mark,
    -- How many ranges there are.
    occurrences,
    -- [ns] Begin of the first.
    first_start_ns,
    -- [ns] End of the last.
    last_end_ns,
    -- [ns] How long all of them took together.
    total_ns
) AS
SELECT
    run_id,
    trace_id,
    regexp_replace(
        regexp_replace(name, '([][\\.*+?^${}()|])', '\\\1', 'g'), '[0-9]+', '[0-9]+', 'g'
    ) AS mark,
    count(*),
    min(start_ns),
    max(end_ns),
    least(sum(end_ns - start_ns), 9_223_372_036_854_775_807)::BIGINT AS total_ns
FROM staging.annotation
GROUP BY run_id, trace_id, mark
ORDER BY trace_id, total_ns DESC, mark;
