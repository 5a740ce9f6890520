-- Which spans of other threads the end of each span of host time waits for: that of
-- `prediction.host_time`, and further ones that it needs (`prediction.thread_need`).
-- One row per variant, span and awaited span.
-- Key: variant_id, thread_id, position, awaited_thread_id, awaited_position.
CREATE VIEW prediction.awaited_thread (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- Host thread, or the lane of a worker.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- The thread it waits for.
    awaited_thread_id,
    -- Span of that thread whose end it waits for.
    awaited_position,
    -- [ns] Delay after that.
    delay_ns
) AS
SELECT
    variant_id, trace_id, thread_id, position, awaited_thread_id, awaited_position, delay_ns
FROM prediction.host_time
WHERE awaited_thread_id IS NOT NULL
UNION ALL
SELECT
    time.variant_id, time.trace_id, thread_id, time.position, need.awaited_thread_id,
    need.awaited_position, prediction.edited_delay_ns(lag_ns, factor, add_ns)
FROM prediction.thread_need AS need
INNER JOIN prediction.host_time AS time USING (thread_id, position)
LEFT JOIN prediction.delay_edit AS delayed
    ON
        time.variant_id = delayed.variant_id
        AND thread_id = delayed.waiting_id
        AND time.position = delayed.position
        AND delayed.kind = 'thread'
WHERE
    time.awaited_thread_id IS NOT NULL
    AND (need.awaited_thread_id, need.awaited_position)
    <> (time.awaited_thread_id, time.awaited_position);
