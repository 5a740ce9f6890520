-- How long GPU work usually starts after what it waited for: medians of a trace, over
-- the instances whose cause is plain. They tell a delay that needs another cause.
-- One row per trace, kind of delay and kind of GPU work.
-- Key: trace_id, delay, kind.
CREATE TABLE graph.usual_delay (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `launch`: launch begin to start on an idle stream, less what the launch held it
    -- back; `stream`: end of the work before to start, of work launched well before that.
    delay,
    -- `kernel`, `memcpy` or `memset`.
    kind,
    -- Instances.
    instance_count,
    -- [ns] Median; of fewer than 3 instances at most 20 us, since one tells nothing.
    median_ns,
    -- [ns] 95th percentile: what exceeds it has another cause. Of fewer than 20 instances
    -- that is the largest: there at most twice the median and 10 us.
    cap_ns
) AS
WITH
instance AS (
    SELECT
        stream_position.run_id,
        stream_position.trace_id,
        kind,
        CASE
            WHEN previous_end_ns IS NULL OR previous_end_ns <= launch_start_ns THEN 'launch'
            WHEN launch_end_ns + 10_000 <= previous_end_ns THEN 'stream'
        END AS delay,
        CASE
            WHEN delay = 'launch' THEN start_ns - launch_start_ns - coalesce(held_ns, 0)
            ELSE start_ns - previous_end_ns
        END AS delay_ns
    FROM graph.stream_position
    LEFT JOIN graph.held_launch USING (launch_id)
    WHERE launch_id IS NOT NULL
)

SELECT
    run_id,
    trace_id,
    delay,
    kind,
    count(*) AS instance_count,
    CASE
        WHEN count(*) < 3 THEN least(quantile_disc(delay_ns, 0.5), 20_000)
        ELSE quantile_disc(delay_ns, 0.5)
    END AS median_ns,
    CASE
        WHEN count(*) < 20
            THEN least(quantile_disc(delay_ns, 0.95), 2 * median_ns + 10_000)
        ELSE quantile_disc(delay_ns, 0.95)
    END AS cap_ns
FROM instance
WHERE delay IS NOT NULL AND delay_ns >= 0
GROUP BY run_id, trace_id, delay, kind;
