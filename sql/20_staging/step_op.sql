-- Ops that could start the steps of a trace without steps: top-level ops of the main thread
-- whose starts divide most of the trace's time into steps of similar length. Of ops that
-- repeat equally often, the one that starts first.
-- One row per op name of a trace.
-- Key: trace_id, mark.
CREATE VIEW staging.step_op (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Regular expression for the name: the value of `tracedb ingest --step-from`.
    mark,
    -- Number of ops of that name.
    occurrences,
    -- [ns] Start of the first.
    first_start_ns,
    -- [ns] End of the last.
    last_end_ns,
    -- [ns] Total time of all of them.
    total_ns
) AS
WITH
spaced AS (
    SELECT
        op.trace_id, op.run_id, op.name, start_ns, end_ns,
        lead(start_ns) OVER (PARTITION BY op.trace_id, op.name ORDER BY start_ns, op_id)
        - start_ns AS period_ns
    FROM staging.op AS op
    INNER JOIN staging.thread AS thread USING (thread_id)
    WHERE
        is_top_level
        AND role = 'main'
        AND op.trace_id NOT IN (SELECT trace_id FROM staging.step_range)
),

typical AS (
    SELECT *, median(period_ns) OVER (PARTITION BY trace_id, name) AS median_ns
    FROM spaced
),

repeated AS (
    SELECT
        run_id, trace_id, name,
        count(*) AS op_count,
        min(start_ns) AS first_start_ns,
        max(end_ns) AS last_end_ns,
        least(sum(end_ns - start_ns), 9_223_372_036_854_775_807)::BIGINT AS total_ns
    FROM typical
    INNER JOIN staging.host_span USING (trace_id)
    GROUP BY run_id, trace_id, name
    HAVING op_count >= 3 AND staging.divides(period_ns, median_ns, span_ns)
)

SELECT
    run_id,
    trace_id,
    staging.as_pattern(name),
    op_count,
    first_start_ns,
    last_end_ns,
    total_ns
FROM repeated
QUALIFY
    row_number() OVER (
        PARTITION BY trace_id, op_count ORDER BY first_start_ns, name
    ) = 1;
