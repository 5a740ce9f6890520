-- Spans of host time that wait for other ranks (`prediction.rank_meeting`), unless an edit
-- removes the wait.
-- One row per variant and op of a process group that is matched with those of other ranks.
-- Key: variant_id, op_id.
CREATE VIEW simulation.meeting_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The op.
    op_id,
    -- The trace.
    trace_id,
    -- Thread that executes the collective.
    thread_id,
    -- Span at whose end it continues when all ranks have arrived.
    position,
    -- The op of the rank that arrived last, the same for all ranks.
    last_op_id
) AS
SELECT
    arrival.variant_id,
    arrival.op_id,
    arrival.trace_id,
    arrival.thread_id,
    meeting.position,
    arrival.last_op_id
FROM simulation.rank_arrival AS arrival
INNER JOIN prediction.rank_meeting AS meeting USING (op_id)
ANTI JOIN prediction.removed_wait AS removed
    ON
        arrival.variant_id = removed.variant_id
        AND removed.kind = 'rank'
        AND arrival.thread_id = removed.waiting_id
        AND meeting.position = removed.position
-- A span at whose end it is woken, and would meet the others, already waits.
WHERE NOT is_eager AND (NOT is_woken OR arrival.position < meeting.position);
