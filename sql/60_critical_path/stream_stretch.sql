-- Streams divided after the work that something waits for; for collectives, other ranks do.
-- A delay of GPU work reaches the end of its stretch, minus what the gaps in between
-- absorb: where work started because the previous work ended, there is no gap.
-- One row per GPU op with such an end at or after it.
-- Key: gpu_op_id.
CREATE TABLE critical_path.stream_stretch (
    -- The GPU op.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- The stream as a lane: minus the first work on it.
    lane,
    -- The end of the stretch: the work that something waits for.
    last_gpu_op_id,
    -- The end of the next stretch; NULL for the last.
    next_last_gpu_op_id,
    -- [ns] How much later it may end without delaying the end of the stretch.
    slack_ns,
    -- [ns] How much later the end of the stretch may be without delaying the end of the
    -- next.
    next_slack_ns
) AS
WITH
awaited AS (
    SELECT gpu_op_id FROM graph.host_awaited
    UNION
    SELECT awaited_gpu_op_id FROM graph.gpu_awaited
    UNION
    SELECT gpu_op_id FROM critical_path.measured_path WHERE gpu_op_id IS NOT NULL
    UNION
    SELECT node_id FROM graph.collective
),

gap AS (
    SELECT
        work.gpu_op_id,
        work.trace_id,
        device,
        stream,
        position,
        CASE
            WHEN cause = 'stream' THEN 0
            ELSE greatest(coalesce(work.start_ns - after_stream_ns, 0), 0)
        END AS gap_ns,
        awaited.gpu_op_id IS NOT NULL AS is_last
    FROM graph.stream_position AS work
    INNER JOIN graph.gpu_cause USING (gpu_op_id)
    INNER JOIN graph.typical_start USING (gpu_op_id)
    LEFT JOIN awaited ON work.gpu_op_id = awaited.gpu_op_id
),

summed AS (
    SELECT
        *,
        -first_value(gpu_op_id) OVER on_stream AS lane,
        sum(gap_ns) OVER on_stream AS until_ns
    FROM gap
    WINDOW on_stream AS (PARTITION BY trace_id, device, stream ORDER BY position)
),

ended AS (
    SELECT
        *,
        first_value(CASE WHEN is_last THEN gpu_op_id END IGNORE NULLS) OVER from_here
        AS last_gpu_op_id,
        first_value(CASE WHEN is_last THEN until_ns END IGNORE NULLS) OVER from_here
        AS last_until_ns,
        first_value(CASE WHEN is_last THEN gpu_op_id END IGNORE NULLS) OVER behind
        AS following_id,
        first_value(CASE WHEN is_last THEN until_ns END IGNORE NULLS) OVER behind
        AS following_until_ns
    FROM summed
    WINDOW
        from_here AS (
            PARTITION BY lane ORDER BY position
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ),
        behind AS (
            PARTITION BY lane ORDER BY position
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )
)

SELECT
    own.gpu_op_id,
    own.trace_id,
    own.lane,
    own.last_gpu_op_id,
    last.following_id,
    (own.last_until_ns - own.until_ns)::BIGINT,
    (last.following_until_ns - last.until_ns)::BIGINT
FROM ended AS own
INNER JOIN ended AS last ON own.last_gpu_op_id = last.gpu_op_id;
