-- Delays to predict with: how long after its cause something happens, pooled over a
-- trace. What an instance has beyond the cap is no delay but unexplained.
-- One row per trace, cause and kind of what is delayed.
-- Key: trace_id, cause, kind.
CREATE TABLE prediction.delay (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `launch`, `stream`, `stream_wait`, `occupancy` (start of GPU work after these; the
    -- last one before the end of what left no room), `return` (end of a blocking call
    -- after the work it waited for) or `call` (a blocking call that found nothing to wait
    -- for).
    cause,
    -- Kind of GPU work, or what a blocking call waits for.
    kind,
    -- Instances.
    instance_count,
    -- [ns] Median; of fewer than 3 instances at most 20 us, since one tells nothing.
    median_ns,
    -- [ns] 95th percentile; of fewer than 20 instances at most twice the median and 10 us.
    cap_ns
) AS
WITH
instance AS (
    SELECT
        stream_wait.run_id,
        stream_wait.trace_id,
        reason AS cause,
        kind,
        CASE reason
            WHEN 'stream_wait' THEN greatest(stream_wait.start_ns - awaited_end_ns, 0)
            ELSE stream_wait.start_ns - awaited_end_ns
        END AS delay_ns
    FROM graph.stream_wait
    INNER JOIN graph.stream_position USING (kernel_id)
    UNION ALL
    SELECT run_id, trace_id, 'return', target, greatest(end_ns - kernel_end_ns, 0)
    FROM graph.host_wait
    WHERE is_blocked
    UNION ALL
    SELECT run_id, trace_id, 'call', target, end_ns - start_ns
    FROM graph.host_wait
    WHERE NOT is_blocked
)

SELECT run_id, trace_id, delay AS cause, kind, instance_count, median_ns, cap_ns
FROM graph.usual_delay
UNION ALL
SELECT
    run_id,
    trace_id,
    cause,
    kind,
    count(*),
    CASE
        WHEN count(*) < 3 THEN least(quantile_disc(delay_ns, 0.5), 20_000)
        ELSE quantile_disc(delay_ns, 0.5)
    END AS median_ns,
    CASE
        WHEN count(*) < 20
            THEN least(quantile_disc(delay_ns, 0.95), 2 * median_ns + 10_000)
        ELSE quantile_disc(delay_ns, 0.95)
    END
FROM instance
GROUP BY run_id, trace_id, cause, kind;
