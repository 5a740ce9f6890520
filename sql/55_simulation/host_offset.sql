-- Host time of each variant divided into segments at the spans that wait: within a segment,
-- a span starts at a fixed offset from the segment's start.
-- One row per variant and span of host time.
-- Key: variant_id, thread_id, position.
CREATE TABLE simulation.host_offset (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread, or worker (`prediction.prefetch`): the lane.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Segment in which the span starts, from 0; a span that waits starts the next one at
    -- its end.
    segment,
    -- [ns] Start of the span, from the start of the segment, after what is inserted there.
    offset_ns,
    -- [ns] What a scenario inserts there (`prediction.host_insert`).
    before_ns,
    -- [ns] Duration, without what it waits for.
    predicted_ns,
    -- Whether its end waits for something.
    waits
) AS
WITH
-- Spans in thread order: the windows below take them in this order.
ordered AS (
    SELECT
        variant_id,
        run_id,
        trace_id,
        thread_id,
        position,
        coalesce(before_ns, 0) AS before_ns,
        predicted_ns + coalesce(after_ns, 0) AS predicted_ns,
        awaited_gpu_op_id IS NOT NULL
        OR awaited_thread_id IS NOT NULL
        OR meeting.op_id IS NOT NULL AS waits
    FROM prediction.host_time
    LEFT JOIN prediction.host_insert USING (variant_id, thread_id, position)
    LEFT JOIN (SELECT variant_id, thread_id, position, op_id FROM simulation.meeting_wait)
        AS meeting
        USING (variant_id, thread_id, position)
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
    ORDER BY variant_id, thread_id, position
),

begun AS (
    SELECT *, position = 1 OR lag(waits) OVER () AS is_first
    FROM ordered
),

-- Over all spans so far: the number of segment starts, and the total duration.
summed AS (
    SELECT
        *,
        count_if(is_first) OVER so_far AS number,
        (sum(before_ns + predicted_ns) OVER so_far)::BIGINT AS total_ns
    FROM begun
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),

segment AS (
    SELECT
        number,
        row_number() OVER (PARTITION BY variant_id, thread_id ORDER BY position) - 1
        AS segment,
        total_ns - predicted_ns - before_ns AS begin_ns
    FROM summed
    WHERE is_first
)

SELECT
    variant_id,
    run_id,
    trace_id,
    thread_id,
    position,
    segment,
    total_ns - predicted_ns - begin_ns AS offset_ns,
    before_ns,
    predicted_ns,
    waits
FROM summed
INNER JOIN segment USING (number);
