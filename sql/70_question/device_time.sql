-- What does each device do, and why does it idle? Over the steps of a trace, from the start
-- of the first to the end of the last period; without steps, over the whole trace.
-- One row per device that ran work, and kind of time.
-- Key: trace_id, device, kind.
CREATE VIEW question.device_time (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Device.
    device,
    -- Whether the device was busy.
    is_busy,
    -- Busy: `compute` (a kernel runs that is not a collective), `communication` (the only
    -- kernels that run are collectives), `copy` (only copies and memsets). Idle: the
    -- reason, as in `critical_path.idle`.
    kind,
    -- [ns] Time.
    time_ns,
    -- [1] Its share; the shares of a device add up to 1.
    time_share
) AS
WITH
recording AS (
    SELECT idle_window.*, origin_ns
    FROM critical_path.idle_window AS idle_window
    INNER JOIN simulation.origin USING (trace_id)
    WHERE variant_id = 0 AND scope = 'trace'
),

change AS (
    SELECT
        work.trace_id,
        device,
        unnest([
            greatest(work.start_ns - origin_ns, recording.start_ns),
            least(work.end_ns - origin_ns, recording.end_ns)
        ]) AS at_ns,
        unnest([1, -1]) AS change,
        kind = 'kernel' AND NOT is_collective AS is_compute,
        is_collective
    FROM staging.gpu_op AS work
    INNER JOIN recording USING (trace_id)
    WHERE
        kind <> 'other'
        AND work.start_ns - origin_ns < recording.end_ns
        AND work.end_ns - origin_ns > recording.start_ns
),

stretch AS (
    SELECT
        trace_id,
        device,
        lead(at_ns) OVER in_order - at_ns AS time_ns,
        CASE
            WHEN sum(change * is_compute::INTEGER) OVER in_order > 0 THEN 'compute'
            WHEN sum(change * is_collective::INTEGER) OVER in_order > 0 THEN 'communication'
            WHEN sum(change) OVER in_order > 0 THEN 'copy'
        END AS kind
    FROM change
    WINDOW in_order AS (
        PARTITION BY trace_id, device ORDER BY at_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),

part AS (
    SELECT trace_id, device, kind IS NOT NULL AS is_busy, kind, sum(time_ns) AS time_ns
    FROM stretch
    WHERE kind IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT trace_id, device, false, kind, sum(end_ns - start_ns)
    FROM critical_path.idle
    WHERE variant_id = 0 AND scope = 'trace'
    GROUP BY ALL
)

SELECT
    run_id,
    part.trace_id,
    rank,
    device,
    is_busy,
    kind,
    part.time_ns::BIGINT AS time_ns,
    part.time_ns / nullif(recording.end_ns - recording.start_ns, 0)
FROM part
INNER JOIN recording ON part.trace_id = recording.trace_id
INNER JOIN staging.trace AS trace ON part.trace_id = trace.trace_id
WHERE part.time_ns > 0
ORDER BY part.trace_id, device, is_busy DESC, part.time_ns DESC, kind;
