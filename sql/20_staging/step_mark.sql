-- User ranges that could mark steps; names that differ only in numbers are one mark.
-- One row per mark of a trace, the one that covers most time first.
-- Key: trace_id, mark.
CREATE VIEW staging.step_mark (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Regular expression for the names: the value of `tracedb ingest --step-mark`.
    mark,
    -- Number of ranges.
    occurrences,
    -- [ns] Start of the first.
    first_start_ns,
    -- [ns] End of the last.
    last_end_ns,
    -- [ns] Total time of all of them.
    total_ns,
    -- How they could mark steps: `mark` if they repeat and cover most of the trace's time
    -- on the host, each being a step; `from` if they do not, but their starts divide most
    -- of that time into steps (of similar length); NULL if neither applies.
    suits
) AS
WITH
range AS (
    SELECT
        *,
        regexp_replace(
            regexp_replace(name, '([][\\.*+?^${}()|])', '\\\1', 'g'),
            '[0-9]+', '[0-9]+', 'g'
        ) AS mark
    FROM staging.annotation
    -- Where XLA's threads wait for each other.
    WHERE NOT regexp_matches(name, '^Wait(:| for) |\(wait for .*\)$')
),

spaced AS (
    SELECT
        *,
        lead(start_ns) OVER (PARTITION BY thread_id, mark ORDER BY start_ns, annotation_id)
        - start_ns AS period_ns
    FROM range
),

typical AS (
    SELECT *, median(period_ns) OVER (PARTITION BY trace_id, mark) AS median_ns
    FROM spaced
),

span AS (
    SELECT trace_id, max(end_ns)::HUGEINT - min(start_ns) AS span_ns
    FROM (
        SELECT trace_id, start_ns, end_ns FROM staging.annotation
        UNION ALL
        SELECT trace_id, start_ns, end_ns FROM staging.op
        UNION ALL
        SELECT trace_id, start_ns, end_ns FROM staging.call
    )
    GROUP BY trace_id
)

SELECT
    run_id,
    trace_id,
    mark,
    count(*) AS range_count,
    min(start_ns),
    max(end_ns),
    least(sum(end_ns - start_ns), 9_223_372_036_854_775_807)::BIGINT AS total_ns,
    CASE
        WHEN range_count >= 2 AND total_ns * 2 >= any_value(span_ns) THEN 'mark'
        WHEN
            range_count >= 3
            AND 2 * sum(period_ns) FILTER (
                period_ns BETWEEN median_ns / 2 AND median_ns * 2
            ) >= any_value(span_ns)
            THEN 'from'
    END
FROM typical
INNER JOIN span USING (trace_id)
GROUP BY run_id, trace_id, mark
ORDER BY trace_id, total_ns DESC, mark;
