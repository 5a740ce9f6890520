-- Host time of each rung cut into segments at the pieces that wait: within a segment
-- a piece begins at a fixed offset from the segment's begin.
-- One row per rung and piece of host time.
-- Key: rung, thread_id, position.
CREATE TABLE critical_path.host_offset (
    -- `replay`, `statistics` or `full`.
    rung,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread: the lane.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- Segment that the piece begins in, from 0; one that waits begins the next at its end.
    segment,
    -- [ns] Begin of the piece, from the begin of the segment.
    offset_ns,
    -- [ns] Duration, but for what it waits for.
    predicted_ns,
    -- Whether its end waits for something.
    waits
) AS
WITH
counted AS (
    SELECT
        *,
        awaited_kernel_id IS NOT NULL OR awaited_thread_id IS NOT NULL AS waits,
        coalesce(sum(waits::INTEGER) OVER (
            PARTITION BY rung, thread_id ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::BIGINT AS segment
    FROM prediction.host_time
)

SELECT
    rung,
    run_id,
    trace_id,
    thread_id,
    position,
    segment,
    coalesce(sum(predicted_ns) OVER (
        PARTITION BY rung, thread_id, segment ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0)::BIGINT AS offset_ns,
    predicted_ns,
    waits
FROM counted;
