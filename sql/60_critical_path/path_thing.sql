-- Which span of host time, GPU work or delay, in the terms of edits, each part of the
-- baseline's critical paths of periods belongs to.
-- One row per variant of the baseline and interval of such a path.
-- Key: variant_id, path_id, start_ns.
CREATE VIEW critical_path.path_thing (
    -- Method, as in `prediction.variant`.
    variant_id,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Start of the interval.
    start_ns,
    -- [ns] Its duration.
    time_ns,
    -- `span`, `work`, or the kind of delay as in `prediction.edited_delay`.
    thing,
    -- The host thread, or the GPU op; for a delay, what it delays.
    thing_id,
    -- Position of the span on its thread, of the wait for a delayed thread; 0 for GPU work
    -- and its delays.
    position
) AS
WITH
interval AS (
    SELECT interval.*
    FROM critical_path.simulated_interval AS interval
    INNER JOIN prediction.variant USING (variant_id)
    WHERE scope = 'period' AND is_simulated AND scenario = 'baseline'
),

span AS (
    SELECT variant_id, thread_id, position, span.start_ns + origin_ns AS start_ns
    FROM simulation.host_span_time AS span
    INNER JOIN simulation.origin USING (trace_id)
    WHERE end_ns > start_ns
)

SELECT
    interval.variant_id, path_id, run_id, trace_id, interval.start_ns,
    end_ns - interval.start_ns, 'span', interval.thread_id, span.position
FROM interval
ASOF INNER JOIN span
    ON
        interval.variant_id = span.variant_id
        AND interval.thread_id = span.thread_id
        AND interval.start_ns >= span.start_ns
WHERE kind <> 'unexplained'
UNION ALL
SELECT
    variant_id, path_id, run_id, trace_id, start_ns, end_ns - start_ns,
    CASE kind
        WHEN 'launch_delay' THEN 'launch'
        WHEN 'stream_gap' THEN 'stream'
        ELSE kind
    END,
    waiting_id,
    waiting_position
FROM interval
WHERE waiting_id IS NOT NULL
UNION ALL
SELECT
    variant_id, path_id, run_id, trace_id, start_ns, end_ns - start_ns, 'work', node_id, 0
FROM interval
WHERE
    waiting_id IS NULL
    AND thread_id IS NULL
    AND node_id IS NOT NULL
    AND kind NOT IN (
        'launch_delay', 'stream_gap', 'stream_wait', 'return', 'unexplained',
        'before_trace', 'rank_wait', 'occupancy'
    );
