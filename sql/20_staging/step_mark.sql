-- User ranges that could mark steps; names that differ only in numbers are one mark. Also
-- Python functions that suit (`staging.step_function`), in traces recorded with stacks, and
-- ops that suit (`staging.step_op`), in traces without steps.
-- One row per mark of a trace, the one that covers most time first.
-- Key: trace_id, mark, kind.
CREATE VIEW staging.step_mark (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Regular expression for the names: the value of `tracedb ingest --step-mark`.
    mark,
    -- Number of ranges or ops, or of calls that are not inside another one.
    occurrences,
    -- [ns] Start of the first.
    first_start_ns,
    -- [ns] End of the last.
    last_end_ns,
    -- [ns] Total time of all of them.
    total_ns,
    -- How they could mark steps: `mark` if they repeat and cover most of the trace's time
    -- on the host, each being a step; `from` if they do not, but their starts divide most
    -- of that time into steps (of similar length), or if they fetch batches; NULL if none
    -- of these applies.
    suits,
    -- What they are: `range`, `function` or `op`.
    kind
) AS
WITH
range AS (
    SELECT
        *,
        regexp_replace(staging.as_pattern(name), '[0-9]+', '[0-9]+', 'g') AS mark,
        annotation_id IN (SELECT annotation_id FROM staging.data_loading) AS is_loading
    FROM staging.annotation
    -- Where XLA's threads wait for each other, and messages.
    WHERE
        NOT regexp_matches(name, '^Wait(:| for) |\(wait for .*\)$')
        AND NOT staging.is_posted_message(name)
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
        -- A batch starts a step, however long its workers take to start and to stop.
        WHEN bool_or(is_loading) THEN if(range_count >= 3, 'from', NULL)
        WHEN range_count >= 2 AND 2::HUGEINT * total_ns >= any_value(span_ns) THEN 'mark'
        WHEN range_count >= 3 AND staging.divides(period_ns, median_ns, span_ns)
            THEN 'from'
    END,
    'range' AS kind
FROM typical
INNER JOIN staging.host_span USING (trace_id)
GROUP BY run_id, trace_id, mark
UNION ALL
SELECT
    run_id, trace_id, mark, calls, first_start_ns, last_end_ns, total_ns, 'mark', 'function'
FROM staging.step_function
UNION ALL
SELECT
    run_id, trace_id, mark, occurrences, first_start_ns, last_end_ns, total_ns, 'from', 'op'
FROM staging.step_op
ORDER BY trace_id, total_ns DESC, mark, kind;
