-- How many events the profiler recorded in a piece of host time: ops, user ranges and
-- calls. Each costs the host time (`overhead.profiler_cost`).
-- One row per piece of host time in which an event begins.
-- Key: thread_id, position.
CREATE VIEW overhead.recorded_event (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- Events that begin in it.
    event_count
) AS
SELECT piece.run_id, piece.trace_id, piece.thread_id, piece.position, count(*)
FROM (
    SELECT thread_id, start_ns FROM staging.op
    UNION ALL
    SELECT thread_id, start_ns FROM staging.launch
) AS event
ASOF INNER JOIN overhead.timeline AS piece
    ON event.thread_id = piece.thread_id AND event.start_ns >= piece.start_ns
GROUP BY piece.run_id, piece.trace_id, piece.thread_id, piece.position;
