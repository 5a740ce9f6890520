-- GPU work as recorded, with the call that launched it, and ends that can be.
-- One row per GPU op.
-- Key: event_id.
CREATE VIEW staging.gpu_launch (
    -- The GPU op's event.
    event_id,
    -- The trace.
    trace_id,
    -- Name.
    name,
    -- `kernel`, `memcpy`, `memset` or `other`.
    kind,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- [ns] Start, by the GPU's clock as recorded.
    start_ns,
    -- [ns] End, likewise; as recorded, or where the next launch of the stream starts, if work
    -- that starts later ended before.
    end_ns,
    -- [ns] How long after that end it is recorded to end; otherwise 0.
    overrun_ns,
    -- Call that launched it; NULL if it is not in the trace.
    call_id,
    -- Thread of that call.
    calling_thread_id,
    -- [ns] Start of that call.
    called_ns,
    -- Innermost op around the launch on its thread; NULL if there is none.
    op_id,
    -- Outermost op around the launch that is not a user range.
    top_op_id,
    -- Outermost op around the launch, including user ranges recorded as ops.
    outermost_op_id,
    -- Correlation number shared with its launch.
    correlation,
    -- External id: the op's, or in files of 2022-24 the correlation.
    external_id,
    -- [B] Bytes moved, for copies and memsets; NULL if below 0 or above 2^50.
    moved_bytes,
    -- Whether it is communication between ranks: as recorded, or by its name.
    is_collective
) AS
WITH
laned AS (
    SELECT
        *,
        hash(trace_id, pid, tid, device, stream, is_collective, kind = 'other') AS lane,
        hash(lane, coalesce(correlation, external_id, -event_id)) AS launch
    FROM staging.gpu_record
),

followed AS (
    SELECT
        *,
        coalesce(lag(start_ns) OVER backwards, 9_223_372_036_854_775_807) AS following_ns,
        coalesce(
            min(CASE WHEN end_ns > start_ns THEN end_ns END) OVER (
                backwards ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            9_223_372_036_854_775_807
        ) AS first_end_ns
    FROM laned
    WINDOW backwards AS (PARTITION BY lane ORDER BY start_ns DESC, event_id DESC)
),

-- The last op of a launch is followed by those of later ones alone.
bounded AS (
    SELECT
        *,
        max(following_ns) OVER of_launch AS next_ns,
        end_ns - 1_000 > next_ns AND end_ns >= max(first_end_ns) OVER of_launch AS overruns
    FROM followed
    WINDOW of_launch AS (PARTITION BY launch)
),

-- Work of a stream runs one after the other; only that of one CUDA graph may not. Profilers
-- record ends of a few ops that are seconds late (AMD): when work that starts with a later
-- launch has ended, theirs is where the next launch starts. If many are, it is no stream.
gpu AS (
    SELECT
        * EXCLUDE (end_ns),
        CASE
            WHEN
                overruns
                AND 10 * sum(overruns::INTEGER) OVER on_lane <= count(*) OVER on_lane
                THEN greatest(start_ns, next_ns)
            ELSE end_ns
        END AS bounded_ns,
        end_ns - bounded_ns AS overrun_ns
    FROM bounded
    WINDOW on_lane AS (PARTITION BY lane)
),

-- Calls within another one of their number, such as the driver's within the runtime's,
-- launch nothing more. Numbers can recur: work belongs to the last launch before it, or to
-- the first one.
launch AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY trace_id, correlation ORDER BY start_ns, end_ns DESC, call_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until_ns,
        if(busy_until_ns IS NULL, -4_611_686_018_427_387_904, start_ns) AS from_ns
    FROM staging.call
    WHERE correlation IS NOT NULL
    QUALIFY coalesce(start_ns > busy_until_ns, true)
)

SELECT
    event_id,
    gpu.trace_id,
    gpu.name,
    gpu.kind,
    device,
    stream,
    gpu.start_ns,
    bounded_ns,
    overrun_ns,
    call_id,
    thread_id,
    launch.start_ns,
    op_id,
    top_op_id,
    outermost_op_id,
    gpu.correlation,
    gpu.external_id,
    moved_bytes,
    is_collective
FROM gpu
ASOF LEFT JOIN launch
    ON
        gpu.trace_id = launch.trace_id
        AND gpu.correlation = launch.correlation
        AND gpu.start_ns >= from_ns;
