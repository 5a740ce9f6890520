-- The time in which a device is idle, for each step and, as measured, for each trace,
-- divided by what delayed the next work: what the host thread did until it launched that
-- work, the delay of the launch, or of a wait. Without next work, what the thread of the
-- step did. Together with the busy time of the device, the intervals cover all of it.
-- One row per variant (0 is measured) and interval of idle time of a step or a trace.
-- Key: variant_id, scope, window_id, device, start_ns.
CREATE VIEW critical_path.idle (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `step` (its mark) or `trace`; these overlap, so select one of them.
    scope,
    -- The step; the trace.
    window_id,
    -- The trace.
    trace_id,
    -- Step; NULL of a trace.
    step_id,
    -- Device.
    device,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns,
    -- On the host `host_op`, `launch`, `host_gap`, `data_loading` or `wait`; then
    -- `launch_delay`, `stream_gap`, `stream_wait`, `occupancy`, `unexplained`, or
    -- `before_trace` if the launch is not in the trace; as in `critical_path.interval`.
    kind,
    -- The next GPU work; NULL if there is none.
    gpu_op_id,
    -- The op or call that the host thread was in.
    node_id
) AS
WITH
-- The time until which the host thread had not submitted the work.
hosted AS (
    SELECT
        gap.*,
        CASE cause WHEN 'end' THEN end_thread_id ELSE launch.thread_id END AS thread_id,
        CASE cause
            WHEN 'end' THEN until_ns
            WHEN 'launch'
                THEN greatest(
                    least(coalesce(launch.start_ns + submit_ns, from_ns), explained_ns),
                    from_ns
                )
            ELSE from_ns
        END AS launch_ns
    FROM critical_path.idle_gap AS gap
    LEFT JOIN simulation.gpu_placement AS placement
        ON gap.gpu_op_id = placement.gpu_op_id AND cause = 'launch'
    LEFT JOIN critical_path.host_outcome AS launch
        ON
            gap.variant_id = launch.variant_id
            AND launch_thread_id = launch.thread_id
            AND launch_position = launch.position
),

-- The spans of host time from the one in which it starts to the one in which it ends.
stretch AS (
    SELECT
        hosted.*,
        unnest(range(coalesce(first.position, 1), last.position + 1)) AS position
    FROM hosted
    ASOF LEFT JOIN critical_path.host_outcome AS first
        ON
            hosted.variant_id = first.variant_id
            AND hosted.thread_id = first.thread_id
            AND from_ns >= first.start_ns
    ASOF INNER JOIN critical_path.host_outcome AS last
        ON
            hosted.variant_id = last.variant_id
            AND hosted.thread_id = last.thread_id
            AND launch_ns > last.start_ns
    WHERE launch_ns > from_ns
),

-- When each host thread is known to do something.
recorded AS (
    SELECT variant_id, thread_id, min(start_ns) AS begin_ns, max(end_ns) AS end_ns
    FROM critical_path.host_outcome
    GROUP BY variant_id, thread_id
),

part AS (
    SELECT
        stretch.variant_id, scope, window_id, stretch.trace_id, step_id, device,
        greatest(outcome.start_ns, from_ns) AS start_ns,
        least(outcome.end_ns, launch_ns) AS end_ns,
        host_kind.kind,
        gpu_op_id,
        coalesce(call_id, op_id) AS node_id
    FROM stretch
    INNER JOIN critical_path.host_outcome AS outcome USING (variant_id, thread_id, position)
    INNER JOIN overhead.timeline AS span USING (thread_id, position)
    INNER JOIN critical_path.host_kind AS host_kind ON span.type = host_kind.type
    UNION ALL
    -- GPU work of another device outlives all host time, or precedes it.
    SELECT
        hosted.variant_id, scope, window_id, trace_id, step_id, device,
        unnest([from_ns, greatest(from_ns, coalesce(recorded.end_ns, launch_ns))]),
        unnest([least(launch_ns, coalesce(recorded.begin_ns, launch_ns)), launch_ns]),
        CASE WHEN recorded.begin_ns IS NULL THEN 'unexplained' ELSE 'host_gap' END,
        gpu_op_id, NULL
    FROM hosted
    LEFT JOIN recorded USING (variant_id, thread_id)
    UNION ALL
    SELECT
        variant_id, scope, window_id, trace_id, step_id, device, launch_ns, explained_ns,
        CASE cause
            WHEN 'launch' THEN 'launch_delay'
            WHEN 'stream' THEN 'stream_gap'
            WHEN 'none' THEN 'before_trace'
            ELSE cause
        END,
        gpu_op_id, NULL
    FROM hosted
    UNION ALL
    SELECT
        variant_id, scope, window_id, trace_id, step_id, device, explained_ns, until_ns,
        'unexplained', gpu_op_id, NULL
    FROM hosted
    WHERE cause <> 'end'
)

SELECT *
FROM part
WHERE end_ns > start_ns;
