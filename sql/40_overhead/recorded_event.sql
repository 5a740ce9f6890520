-- How many events the profiler recorded in a span of host time: ops, user ranges and
-- calls. Each costs the host time (`overhead.profiler_cost`).
-- One row per span of host time in which an event begins.
-- Key: thread_id, position.
CREATE VIEW overhead.recorded_event (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Events that begin in it.
    event_count
) AS
SELECT span.run_id, span.trace_id, span.thread_id, span.position, count(*)
FROM (
    SELECT thread_id, start_ns FROM staging.op
    UNION ALL
    SELECT thread_id, start_ns FROM staging.call
) AS event
ASOF INNER JOIN overhead.timeline AS span
    ON event.thread_id = span.thread_id AND event.start_ns >= span.start_ns
GROUP BY span.run_id, span.trace_id, span.thread_id, span.position;
