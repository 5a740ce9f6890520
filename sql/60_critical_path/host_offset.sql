-- Host time of each variant cut into segments at the pieces that wait: within a segment
-- a piece begins at a fixed offset from the segment's begin.
-- One row per variant and piece of host time.
-- Key: variant_id, thread_id, position.
CREATE TABLE critical_path.host_offset (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
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
-- Waits and time before a piece on its thread.
summed AS (
    SELECT
        *,
        awaited_kernel_id IS NOT NULL OR awaited_thread_id IS NOT NULL AS waits,
        coalesce(sum(waits::INTEGER) OVER before, 0)::BIGINT AS segment,
        coalesce(sum(predicted_ns) OVER before, 0)::BIGINT AS before_ns
    FROM prediction.host_time
    WINDOW before AS (
        PARTITION BY variant_id, thread_id ORDER BY position
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

-- Time does not run backwards: the least of a segment is that at its begin.
begun AS (
    SELECT variant_id, thread_id, segment, min(before_ns) AS begin_ns
    FROM summed
    GROUP BY variant_id, thread_id, segment
)

SELECT
    variant_id,
    run_id,
    trace_id,
    thread_id,
    position,
    segment,
    before_ns - begin_ns AS offset_ns,
    predicted_ns,
    waits
FROM summed
INNER JOIN begun USING (variant_id, thread_id, segment);
