-- Critical paths of the simulation as intervals that partition their time, in the terms of
-- `critical_path.interval`: what the step or the run would wait for at each time.
-- One row per interval of a path.
-- Key: variant_id, scope, path_id, start_ns.
CREATE VIEW critical_path.simulated_interval (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The run.
    run_id,
    -- The trace of the interval.
    trace_id,
    -- [ns] Start, as in `critical_path.path`.
    start_ns,
    -- [ns] End.
    end_ns,
    -- As in `critical_path.interval`; `unexplained` is the kept part of a host wait
    -- (`prediction.host_time`); the kept part of other delays is included in them.
    kind,
    -- Op, call or GPU work that it belongs to.
    node_id,
    -- Host thread; NULL on a device.
    thread_id,
    -- For a delay, the thread or GPU work that it delays; otherwise NULL.
    waiting_id,
    -- Position of the wait on that thread; 0 for GPU work.
    waiting_position
) AS
WITH
hop AS MATERIALIZED (FROM critical_path.simulated_hop),

work AS MATERIALIZED (FROM critical_path.simulated_work),

-- What a hop passes on the host: for the launch of the first work, only up to then.
passed_host AS (
    SELECT
        hop.*,
        host.thread_id,
        host.position,
        host.offset_ns,
        first.gpu_op_id,
        coalesce(host.position = launch_position, false) AS is_launch,
        gpu.submit_ns
    FROM hop
    LEFT JOIN work AS first
        ON
            hop.variant_id = first.variant_id
            AND hop.scope = first.scope
            AND hop.path_id = first.path_id
            AND hop.hop = first.hop
            AND first.earlier_end_ns IS NULL
    LEFT JOIN simulation.gpu_placement AS placement ON first.gpu_op_id = placement.gpu_op_id
    LEFT JOIN prediction.gpu_time AS gpu
        ON hop.variant_id = gpu.variant_id AND first.gpu_op_id = gpu.gpu_op_id
    INNER JOIN simulation.host_offset AS host
        ON
            hop.variant_id = host.variant_id
            AND hop.lane = host.thread_id
            AND hop.segment = host.segment
            AND host.position <= coalesce(launch_position, last_position, host.position)
),

-- Starts of the intervals, in path order; the first starts with the path, wherever the walk
-- ended.
mark AS (
    SELECT
        variant_id, scope, path_id, max(hop) AS hop, 0 AS part, 0 AS ordinal,
        arg_max(hop.trace_id, hop) AS trace_id, any_value(start_ns) AS begin_ns,
        'before_trace' AS kind, arg_max(last_id, hop) AS node_id, NULL::BIGINT AS thread_id,
        NULL::BIGINT AS waiting_id, NULL::BIGINT AS waiting_position
    FROM hop
    INNER JOIN critical_path.path USING (variant_id, scope, path_id)
    GROUP BY variant_id, scope, path_id
    UNION ALL
    SELECT
        variant_id, scope, path_id, hop, 1, 3 * host.position, host.trace_id,
        begin_ns + offset_ns + shift_ns, span.kind, node_id, span.thread_id, NULL, NULL
    FROM passed_host AS host
    LEFT JOIN prediction.prefetch USING (variant_id, lane, position)
    INNER JOIN critical_path.span_kind AS span
        ON
            prediction.lane_thread(lane) = span.thread_id
            AND coalesce(first_position, position) = span.position
    UNION ALL
    SELECT
        variant_id, scope, path_id, hop, 1, 3 * position + 2, trace_id,
        begin_ns + offset_ns + submit_ns + shift_ns, 'launch_delay', gpu_op_id, NULL,
        gpu_op_id, 0
    FROM passed_host
    WHERE is_launch
    UNION ALL
    SELECT
        variant_id, scope, path_id, hop, 1, 3 * position + 1, host.trace_id,
        begin_ns + offset_ns + predicted_ns - kept_ns + shift_ns,
        'unexplained', call_id, lane, NULL, NULL
    FROM passed_host AS host
    INNER JOIN prediction.host_time USING (variant_id, thread_id, position)
    INNER JOIN prediction.host_own USING (thread_id, position)
    INNER JOIN overhead.timeline USING (thread_id, position)
    WHERE kept_ns > 0 AND NOT is_blocked
    UNION ALL
    SELECT
        variant_id, scope, path_id, hop, 2, 2 * position + part.later, gpu_op.trace_id,
        part.begin_ns + shift_ns, part.kind, gpu_op_id, NULL,
        CASE part.later WHEN 0 THEN gpu_op_id END, CASE part.later WHEN 0 THEN 0 END
    FROM work AS passed
    INNER JOIN hop USING (variant_id, scope, path_id, hop)
    INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
    ANTI JOIN graph.collective AS collective ON passed.gpu_op_id = collective.node_id
    CROSS JOIN LATERAL unnest([
        {'later': 0, 'begin_ns': earlier_end_ns, 'kind': 'stream_gap'},
        {
            'later': 1, 'begin_ns': passed.start_ns,
            'kind': CASE WHEN is_collective THEN 'communication' ELSE gpu_op.kind END
        }
    ]) AS unnested (part)
    WHERE part.begin_ns IS NOT NULL
    UNION ALL
    SELECT
        variant_id, scope, path_id, hop, 3, part.ordinal, trace_id,
        part.begin_ns + shift_ns, part.kind, awaited_id, NULL,
        CASE part.ordinal WHEN 3 THEN waiting_id END,
        CASE part.ordinal WHEN 3 THEN waiting_position END
    FROM critical_path.simulated_wait
    CROSS JOIN LATERAL unnest([
        {'ordinal': 0, 'kind': 'rank_wait', 'begin_ns': arrival_ns},
        {'ordinal': 1, 'kind': 'absent_rank_wait', 'begin_ns': complete_ns},
        {'ordinal': 2, 'kind': 'communication', 'begin_ns': moving_ns},
        {
            'ordinal': 3, 'kind': CASE reason WHEN 'stream' THEN 'stream_gap' ELSE reason END,
            'begin_ns': end_ns
        }
    ]) AS unnested (part)
    WHERE part.begin_ns IS NOT NULL AND (meets OR part.ordinal = 3)
),

-- An interval lasts until the next one starts. With negative delays that may be before its
-- own start, and it is dropped.
begun AS (
    SELECT
        mark.*,
        path.run_id,
        path.start_ns AS path_start_ns,
        path.end_ns AS path_end_ns,
        least(min(begin_ns) OVER backwards, path.end_ns) AS from_ns
    FROM mark
    INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
    WINDOW backwards AS (
        PARTITION BY variant_id, scope, path_id ORDER BY hop, part DESC, ordinal DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)

SELECT
    variant_id, scope, path_id, run_id, trace_id,
    greatest(from_ns, path_start_ns) AS interval_start_ns,
    coalesce(
        lag(from_ns) OVER (
            PARTITION BY variant_id, scope, path_id ORDER BY hop, part DESC, ordinal DESC
        ),
        path_end_ns
    ) AS interval_end_ns,
    kind,
    node_id,
    thread_id,
    waiting_id,
    waiting_position
FROM begun
QUALIFY interval_end_ns > interval_start_ns;
