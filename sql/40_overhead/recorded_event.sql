-- Number of events recorded by the profiler in a span of host time: ops, user ranges and
-- calls. Each costs the host time (`overhead.profiler_cost`), and for an op most of it
-- comes before its recorded start: the cost of a top-level op is in the gap before it, if
-- there is one, as in Lin et al. 2022 (section 3).
-- One row per span of host time in which events are recorded.
-- Key: thread_id, position.
CREATE VIEW overhead.recorded_event (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Events recorded in it.
    event_count
) AS
WITH
event AS (
    SELECT thread_id, start_ns, is_top_level FROM staging.op
    UNION ALL
    SELECT thread_id, start_ns, false FROM staging.call
),

begun AS (
    SELECT
        span.run_id,
        span.trace_id,
        span.thread_id,
        span.position,
        CASE
            WHEN is_top_level AND event.start_ns = span.start_ns THEN span.position - 1
        END AS before_position
    FROM event
    ASOF INNER JOIN overhead.timeline AS span
        ON event.thread_id = span.thread_id AND event.start_ns >= span.start_ns
)

SELECT
    begun.run_id,
    begun.trace_id,
    begun.thread_id,
    coalesce(gap.position, begun.position) AS position,
    count(*)
FROM begun
LEFT JOIN overhead.timeline AS gap
    ON
        begun.thread_id = gap.thread_id
        AND before_position = gap.position
        AND gap.type = 'T1'
GROUP BY ALL;
