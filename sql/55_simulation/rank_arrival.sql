-- When each rank arrives at a collective on the CPU: at the end of a span of host time,
-- excluding the wait for other ranks there.
-- One row per variant and op of a process group that is matched with those of other ranks.
-- Key: variant_id, op_id.
CREATE VIEW simulation.rank_arrival (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The op.
    op_id,
    -- The trace.
    trace_id,
    -- The op of the rank that arrived last, the same for all ranks.
    last_op_id,
    -- Thread that executes the collective.
    thread_id,
    -- The span at whose end it arrives.
    position,
    -- Whether its thread is woken at the end of the span, which waits for another one.
    is_woken
) AS
SELECT
    time.variant_id,
    op_id,
    meeting.trace_id,
    last_op_id,
    meeting.thread_id,
    arrival_position,
    awaited_gpu_op_id IS NOT NULL OR awaited_thread_id IS NOT NULL
FROM prediction.rank_meeting AS meeting
INNER JOIN prediction.host_time AS time
    ON meeting.thread_id = time.thread_id AND arrival_position = time.position
-- A removed op meets no other rank.
LEFT JOIN prediction.host_edit AS edit
    ON
        time.variant_id = edit.variant_id
        AND meeting.thread_id = edit.thread_id
        AND CASE
            WHEN is_message THEN arrival_position ELSE meeting.position + 1
        END = edit.position
WHERE NOT coalesce(is_removed, false);
