-- Waits of GPU work for work on other streams that a variant has because work is removed,
-- moved or inserted. The waiter of removed work waits for its replacement, and for what the
-- removed work before it on its stream waited for. Moved work waits for what stays before
-- it on its own stream, and for what moves elsewhere from there, and what stays behind it
-- waits for the moved work. Overlapped work
-- waits for what it followed, and its consumer waits for it. Whatever waits for work also
-- waits for work inserted after it.
-- Without edits it is empty.
-- One row per variant, waiting GPU op and awaited GPU op.
-- Key: variant_id, gpu_op_id, awaited_gpu_op_id.
CREATE TABLE prediction.added_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The GPU work that waits.
    gpu_op_id,
    -- The GPU work that it waits for.
    awaited_gpu_op_id,
    -- [ns] Delay after that.
    delay_ns
) AS
WITH
-- Waits for work that may be removed: its own, and those of the removed work before it.
meant AS (
    SELECT time.variant_id, time.gpu_op_id, awaited.awaited_gpu_op_id, delay_ns + kept_ns
        AS delay_ns
    FROM prediction.gpu_time AS time
    INNER JOIN prediction.variant_wait AS awaited
        ON time.variant_id = awaited.variant_id AND time.gpu_op_id = awaited.gpu_op_id
    SEMI JOIN prediction.removed_place AS removed
        ON
            time.variant_id = removed.variant_id
            AND awaited.awaited_gpu_op_id = removed.gpu_op_id
    UNION ALL
    SELECT last.variant_id, next_gpu_op_id, cause_gpu_op_id, delay_ns
    FROM (
        SELECT variant_id, next_gpu_op_id, arg_max(gpu_op_id, position) AS gpu_op_id
        FROM prediction.removed_place
        WHERE next_gpu_op_id IS NOT NULL
        GROUP BY variant_id, next_gpu_op_id
    ) AS last
    INNER JOIN prediction.removed_cause USING (variant_id, gpu_op_id)
    WHERE delay_ns IS NOT NULL
),

resolved AS (
    SELECT meant.variant_id, meant.gpu_op_id, kept_gpu_op_id AS awaited_gpu_op_id, delay_ns
    FROM meant
    INNER JOIN prediction.stand_in AS stand_in
        ON
            meant.variant_id = stand_in.variant_id
            AND awaited_gpu_op_id = stand_in.gpu_op_id
    UNION ALL
    SELECT meant.variant_id, meant.gpu_op_id, awaited_gpu_op_id, delay_ns
    FROM meant
    ANTI JOIN prediction.removed_place AS removed
        ON
            meant.variant_id = removed.variant_id
            AND awaited_gpu_op_id = removed.gpu_op_id
),

wait AS (
    SELECT variant_id, resolved.gpu_op_id, awaited_gpu_op_id, delay_ns
    FROM resolved
    INNER JOIN graph.stream_position AS work ON resolved.gpu_op_id = work.gpu_op_id
    INNER JOIN graph.stream_position AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
    -- Work on its own stream is before it anyway.
    WHERE work.device <> awaited.device OR work.stream <> awaited.stream
    UNION ALL
    SELECT moved.variant_id, moved.gpu_op_id, before.gpu_op_id, delay_ns
    FROM prediction.moved_work AS moved
    CROSS JOIN unnest([previous_gpu_op_id, parted_gpu_op_id]) AS before (gpu_op_id)
    INNER JOIN graph.stream_position AS work ON moved.gpu_op_id = work.gpu_op_id
    INNER JOIN prediction.added_delay AS delay
        ON
            moved.variant_id = delay.variant_id
            AND work.trace_id = delay.trace_id
            AND work.kind = delay.kind
            AND cause = 'stream_wait'
    WHERE before.gpu_op_id IS NOT NULL
    UNION ALL
    SELECT moved.variant_id, next_gpu_op_id, moved.gpu_op_id, delay_ns
    FROM prediction.moved_work AS moved
    INNER JOIN graph.stream_position AS work ON next_gpu_op_id = work.gpu_op_id
    INNER JOIN prediction.added_delay AS delay
        ON
            moved.variant_id = delay.variant_id
            AND work.trace_id = delay.trace_id
            AND work.kind = delay.kind
            AND cause = 'stream_wait'
    UNION ALL
    -- What it followed, or the replacement of that, on any stream but its new one.
    SELECT variant_id, moved.gpu_op_id, coalesce(kept_gpu_op_id, cause_gpu_op_id), delay_ns
    FROM prediction.moved_work AS moved
    INNER JOIN prediction.removed_cause AS cause USING (variant_id, gpu_op_id)
    LEFT JOIN prediction.stand_in AS stand_in
        ON
            cause.variant_id = stand_in.variant_id
            AND cause_gpu_op_id = stand_in.gpu_op_id
    WHERE is_overlapped AND delay_ns IS NOT NULL
    UNION ALL
    SELECT moved.variant_id, consumer.gpu_op_id, moved.gpu_op_id, delay_ns
    FROM prediction.overlapping_wait AS moved
    INNER JOIN graph.stream_position AS consumer
        ON consumer_gpu_op_id = consumer.gpu_op_id
    INNER JOIN prediction.added_delay AS delay
        ON
            moved.variant_id = delay.variant_id
            AND consumer.trace_id = delay.trace_id
            AND consumer.kind = delay.kind
            AND cause = 'stream_wait'
),

-- All waits of and for the work next to an insertion.
beside AS (
    FROM wait
    UNION ALL
    SELECT time.variant_id, time.gpu_op_id, awaited.awaited_gpu_op_id, delay_ns + kept_ns
    FROM prediction.gpu_time AS time
    INNER JOIN prediction.variant_wait AS awaited
        ON time.variant_id = awaited.variant_id AND time.gpu_op_id = awaited.gpu_op_id
    ANTI JOIN prediction.displaced_work AS removed
        ON
            time.variant_id = removed.variant_id
            AND awaited.awaited_gpu_op_id = removed.gpu_op_id
    WHERE time.variant_id IN (SELECT variant_id FROM prediction.inserted_work)
),

every AS (
    FROM wait
    UNION ALL
    SELECT variant_id, inserted.gpu_op_id, awaited_gpu_op_id, delay_ns
    FROM beside
    INNER JOIN prediction.inserted_work AS inserted USING (variant_id)
    WHERE beside.gpu_op_id = inserted.beside_gpu_op_id AND NOT is_after
    UNION ALL
    SELECT variant_id, beside.gpu_op_id, inserted.gpu_op_id, delay_ns
    FROM beside
    INNER JOIN prediction.inserted_work AS inserted USING (variant_id)
    WHERE awaited_gpu_op_id = beside_gpu_op_id AND is_after
)

SELECT variant_id, time.trace_id, gpu_op_id, every.awaited_gpu_op_id, max(delay_ns)
FROM every
INNER JOIN prediction.gpu_time AS time USING (variant_id, gpu_op_id)
GROUP BY variant_id, time.trace_id, gpu_op_id, every.awaited_gpu_op_id;
