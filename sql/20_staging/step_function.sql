-- Python functions outside PyTorch that could be the steps of a trace recorded with stacks:
-- their calls on the main thread cover three quarters of the trace's time, most of it in
-- calls that take similar times. A call inside another one of its function does not count;
-- of functions called equally often, the one that takes the most time, which calls the others.
-- One row per function of a trace.
-- Key: trace_id, mark.
CREATE VIEW staging.step_function (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Regular expression for the name: the value of `tracedb ingest --step-mark`.
    mark,
    -- Number of calls.
    calls,
    -- [ns] Start of the first.
    first_start_ns,
    -- [ns] End of the last.
    last_end_ns,
    -- [ns] Total time of all of them.
    total_ns
) AS
WITH
called AS (
    SELECT frame.*, run_id, end_ns - start_ns AS duration_ns
    FROM staging.python_frame AS frame
    INNER JOIN staging.thread AS thread USING (trace_id, thread_id)
    WHERE role = 'main'
),

-- By name alone at first, which leaves few of what may be a million calls.
frequent AS (
    SELECT trace_id, event_name
    FROM called
    INNER JOIN staging.host_span USING (trace_id)
    GROUP BY trace_id, event_name
    HAVING count(*) >= 2 AND 4 * sum(duration_ns) >= 3::HUGEINT * any_value(span_ns)
),

outer_call AS (
    SELECT called.*
    FROM called
    INNER JOIN frequent USING (trace_id, event_name)
    QUALIFY
        coalesce(
            start_ns >= max(end_ns) OVER (
                PARTITION BY thread_id, event_name
                ORDER BY start_ns, end_ns DESC, python_frame_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            true
        )
),

typical AS (
    SELECT *, median(duration_ns) OVER (PARTITION BY trace_id, event_name) AS median_ns
    FROM outer_call
)

SELECT
    run_id,
    trace_id,
    staging.as_pattern(event_name) AS mark,
    count(*) AS call_count,
    min(start_ns),
    max(end_ns),
    least(sum(duration_ns), 9_223_372_036_854_775_807)::BIGINT
FROM typical
INNER JOIN staging.host_span USING (trace_id)
GROUP BY run_id, trace_id, event_name
HAVING
    call_count >= 2
    AND 4 * sum(duration_ns) >= 3::HUGEINT * any_value(span_ns)
    AND staging.divides(duration_ns, median_ns, span_ns)
QUALIFY
    row_number() OVER (
        PARTITION BY trace_id, call_count ORDER BY sum(duration_ns) DESC, mark
    ) = 1;
