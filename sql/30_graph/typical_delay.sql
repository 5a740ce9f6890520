-- Typical start delay of GPU work after what it waited for: medians over a trace's
-- instances with a clear cause. They reveal delays that need another cause. A kind of work
-- without such an instance uses the delays of all kinds.
-- One row per trace, kind of delay and kind of GPU work.
-- Key: trace_id, delay, kind.
CREATE TABLE graph.typical_delay (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `launch`: from submission by the launch (`graph.launch_submission`) to start on an idle
    -- stream; `stream`: from the end of the previous work to the start, for work
    -- launched well before that; `graph`: the same for work that one call launched together
    -- with the previous work. Without an instance of one of these two, the other stands in.
    delay,
    -- `kernel`, `memcpy` or `memset`.
    kind,
    -- Instances; 0 if those of all kinds are used, or if there are none, which counts as no
    -- delay.
    instance_count,
    -- [ns] Median; for fewer than 20 instances, at most 20 us or the 95th percentile over
    -- all kinds, because the few may all have had another cause. Of launches it is negative
    -- if the device's clock is behind the host's.
    median_ns,
    -- [ns] Upper limit; anything longer has another cause (`graph.delay_cap_ns`).
    cap_ns
) AS
WITH
-- A wait imposed on the stream is another cause.
recorded_wait AS (
    SELECT waiting.gpu_op_id, max(awaited.end_ns) AS awaited_end_ns
    FROM graph.recorded_stream_wait AS waiting
    INNER JOIN graph.stream_position AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
    GROUP BY waiting.gpu_op_id
),

-- So is work on another stream, if it ended just before work that started very late.
held_up AS (
    SELECT DISTINCT late.gpu_op_id
    FROM (
        SELECT *, greatest(launch_start_ns, previous_end_ns) AS allowed_ns
        FROM graph.stream_position
        WHERE call_id IS NOT NULL AND start_ns > allowed_ns + 100_000
    ) AS late
    INNER JOIN staging.stream AS other
        ON
            late.trace_id = other.trace_id
            AND (late.device <> other.device OR late.stream <> other.stream)
    ASOF INNER JOIN graph.stream_position AS ended
        ON
            other.trace_id = ended.trace_id
            AND other.device = ended.device
            AND other.stream = ended.stream
            AND late.start_ns + 1_000 >= ended.end_ns
    WHERE ended.end_ns >= late.start_ns - 50_000 AND ended.end_ns > late.allowed_ns
),

instance AS (
    SELECT
        stream_position.run_id,
        stream_position.trace_id,
        kind,
        CASE
            WHEN continues THEN CASE
                WHEN coalesce(awaited_end_ns <= previous_end_ns, true) THEN 'graph'
            END
            WHEN coalesce(greatest(previous_end_ns, awaited_end_ns) <= launch_start_ns, true)
                THEN 'launch'
            WHEN
                graph.is_well_before(launch_end_ns, previous_end_ns)
                AND coalesce(awaited_end_ns <= previous_end_ns, true)
                THEN 'stream'
        END AS delay,
        CASE
            WHEN delay = 'launch' THEN start_ns - launch_start_ns - coalesce(submit_ns, 0)
            ELSE start_ns - previous_end_ns
        END AS delay_ns
    FROM graph.stream_position
    LEFT JOIN graph.launch_submission USING (call_id)
    LEFT JOIN recorded_wait USING (gpu_op_id)
    WHERE call_id IS NOT NULL AND gpu_op_id NOT IN (SELECT gpu_op_id FROM held_up)
),

-- For each kind of work, and for all (NULL).
pooled AS (
    SELECT
        run_id,
        trace_id,
        delay,
        kind,
        count(*) AS instance_count,
        quantile_disc(delay_ns, 0.5) AS median_ns,
        quantile_disc(delay_ns, 0.95) AS p95_ns
    FROM instance
    WHERE delay = 'launch' OR delay_ns >= 0
    GROUP BY GROUPING SETS ((run_id, trace_id, delay, kind), (run_id, trace_id, delay))
),

-- Gaps on streams and within graphs stand in for each other.
every AS (
    SELECT trace_id, meant AS delay, median_ns, p95_ns
    FROM (
        SELECT
            *,
            unnest(
                CASE delay WHEN 'launch' THEN ['launch'] ELSE ['stream', 'graph'] END
            ) AS meant
        FROM pooled
        WHERE kind IS NULL
    )
    QUALIFY row_number() OVER (PARTITION BY trace_id, meant ORDER BY meant <> delay) = 1
),

wanted AS (
    SELECT DISTINCT run_id, trace_id, delay, kind
    FROM graph.stream_position
    CROSS JOIN (SELECT unnest(['launch', 'stream', 'graph']) AS delay)
    WHERE delay <> 'graph' OR continues
)

SELECT
    wanted.run_id,
    wanted.trace_id,
    wanted.delay,
    wanted.kind,
    coalesce(own.instance_count, 0),
    CASE
        WHEN own.instance_count >= 20 THEN own.median_ns
        ELSE least(
            coalesce(own.median_ns, every.median_ns, 0), greatest(every.p95_ns, 20_000)
        )
    END AS typical_ns,
    graph.delay_cap_ns(
        own.instance_count, typical_ns, coalesce(own.p95_ns, every.p95_ns, 0)
    )
FROM wanted
LEFT JOIN every ON wanted.trace_id = every.trace_id AND wanted.delay = every.delay
LEFT JOIN pooled AS own
    ON
        wanted.trace_id = own.trace_id
        AND wanted.delay = own.delay
        AND wanted.kind = own.kind;
