-- Delays to predict with: how long after its cause something happens, pooled over a trace's
-- instances with a clear cause: a wait that something else outlasted is not informative.
-- Kinds without such an instance use the delays of all kinds. The part of an instance above
-- the cap is not a delay but unexplained.
-- One row per trace, cause and kind of what is delayed.
-- Key: trace_id, cause, kind.
CREATE TABLE prediction.delay (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `launch`, `stream`, `stream_wait`, `occupancy` (start of GPU work after these; for
    -- the last one, before the end of the work that left no room), `return` (end of a
    -- blocking call after the work it waited for, negative if it returns early) or `call`
    -- (a blocking call that found nothing to wait for).
    cause,
    -- Kind of GPU work, or what a blocking call waits for.
    kind,
    -- Instances; 0 if those of all kinds are used.
    instance_count,
    -- [ns] Median; for fewer than 3 instances at most 20 us, because a single one is not
    -- informative.
    median_ns,
    -- [ns] The maximum for an instance (`graph.delay_cap_ns`).
    cap_ns
) AS
WITH
-- Calls that found nothing to wait for. Clear instances are those that came long after
-- everything they might have waited for; if there are none, those that did not return when
-- they would have if they had waited.
idle_call AS (
    SELECT
        call.run_id,
        call.trace_id,
        target,
        end_ns - start_ns AS delay_ns,
        graph.is_well_before(gpu_op_end_ns, start_ns)
        OR NOT coalesce(graph.is_typical(end_ns - gpu_op_end_ns, median_ns), false)
        AND NOT bool_or(graph.is_well_before(gpu_op_end_ns, start_ns))
            OVER (PARTITION BY call.trace_id, target)
        AS is_plain
    FROM graph.host_wait AS call
    INNER JOIN graph.typical_return AS typical
        ON call.trace_id = typical.trace_id AND (target = 'copy') = is_copy
    WHERE NOT is_blocked
),

-- How long they take at most: a call that takes no longer was not held up.
idle_limit AS (
    SELECT trace_id, quantile_disc(delay_ns, 0.95) AS limit_ns
    FROM idle_call
    WHERE is_plain AND target NOT IN ('copy', 'queue')
    GROUP BY trace_id
),

-- A stream wait is clear if it ended only when launch and stream usually let the work
-- start; and, if there are any, a call that had waited for long.
instance AS (
    SELECT
        stream_wait.run_id,
        stream_wait.trace_id,
        reason AS cause,
        kind,
        CASE reason
            WHEN 'stream_wait' THEN greatest(stream_wait.start_ns - awaited_end_ns, 0)
            ELSE stream_wait.start_ns - awaited_end_ns
        END AS delay_ns,
        reason = 'occupancy' OR awaited_end_ns >= greatest(after_launch_ns, after_stream_ns)
        AS is_plain
    FROM graph.stream_wait
    INNER JOIN graph.stream_position USING (gpu_op_id)
    INNER JOIN graph.typical_start USING (gpu_op_id)
    UNION ALL
    SELECT
        run_id, trace_id, 'return', target, end_ns - gpu_op_end_ns,
        graph.is_well_before(start_ns, gpu_op_end_ns)
        OR coalesce(target IN ('copy', 'queue') OR end_ns - start_ns > limit_ns, true)
        AND NOT bool_or(graph.is_well_before(start_ns, gpu_op_end_ns))
            OVER (PARTITION BY trace_id, target)
    FROM graph.host_wait
    LEFT JOIN idle_limit USING (trace_id)
    WHERE
        is_blocked
        -- During a short call something may have ended by chance, if the call's target is
        -- unknown.
        AND (
            recorded
            OR target NOT IN ('stream', 'event')
            OR graph.is_well_before(start_ns, gpu_op_end_ns)
        )
    UNION ALL
    SELECT run_id, trace_id, 'call', target, delay_ns, is_plain
    FROM idle_call
),

-- What is similar enough to learn from each other: all kinds of GPU work, and all calls
-- that wait for a device; NULL is everything.
pooled AS (
    SELECT
        run_id,
        trace_id,
        cause,
        kind IN ('copy', 'queue') AS is_launch,
        kind,
        count(*) AS instance_count,
        quantile_disc(delay_ns, 0.5) AS middle_ns,
        CASE WHEN count(*) < 3 THEN least(middle_ns, 20_000) ELSE middle_ns END AS median_ns,
        graph.delay_cap_ns(count(*), median_ns, quantile_disc(delay_ns, 0.95)) AS cap_ns
    FROM instance
    WHERE is_plain
    GROUP BY
        GROUPING SETS (
            (run_id, trace_id, cause, is_launch, kind), (run_id, trace_id, cause, is_launch)
        )
),

wanted AS (
    SELECT DISTINCT run_id, trace_id, cause, kind, kind IN ('copy', 'queue') AS is_launch
    FROM instance
    UNION
    SELECT run_id, trace_id, unnest(['return', 'call']), target, false
    FROM graph.host_wait
    WHERE target NOT IN ('copy', 'queue')
)

SELECT run_id, trace_id, delay AS cause, kind, instance_count, median_ns, cap_ns
FROM graph.typical_delay
UNION ALL
SELECT
    wanted.run_id,
    wanted.trace_id,
    wanted.cause,
    wanted.kind,
    coalesce(own.instance_count, 0),
    coalesce(own.median_ns, every.median_ns, gap.median_ns, 0),
    coalesce(own.cap_ns, every.cap_ns, gap.cap_ns, 0)
FROM wanted
LEFT JOIN pooled AS own
    ON
        wanted.trace_id = own.trace_id
        AND wanted.cause = own.cause
        AND wanted.kind = own.kind
LEFT JOIN pooled AS every
    ON
        wanted.trace_id = every.trace_id
        AND wanted.cause = every.cause
        AND wanted.is_launch = every.is_launch
        AND every.kind IS NULL
-- Waits of streams without an observed end: like work that follows on its stream.
LEFT JOIN graph.typical_delay AS gap
    ON
        wanted.trace_id = gap.trace_id
        AND wanted.cause = 'stream_wait'
        AND wanted.kind = gap.kind
        AND gap.delay = 'stream'
WHERE wanted.cause <> 'call' OR own.trace_id IS NOT NULL OR every.trace_id IS NOT NULL;
