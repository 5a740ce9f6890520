-- How a delay propagates: from a stretch of a host thread or of a stream to the stretches
-- that it would delay, and how long it may be before it does. A stretch of a thread starts
-- when the thread continued; one of a stream ends with work that something waits for.
-- One row per stretch and stretch that depends on it; one `origin` for each.
-- Key: trace_id, lane, stretch, target_lane, target_stretch, kind.
CREATE TABLE critical_path.slack_edge (
    -- The trace.
    trace_id,
    -- Lane: a thread, or minus the first work of a stream.
    lane,
    -- Stretch of the lane: of a thread as in `critical_path.thread_stretch`, 0 before the
    -- first; of a stream, the GPU work that ends it.
    stretch,
    -- The dependent lane; 0 for the end of a step.
    target_lane,
    -- Stretch of that lane; 0 for the end of a step.
    target_stretch,
    -- `origin` (nothing may depend on it), `end` (of a step), `launch`, `thread`, `wait`,
    -- `stream` (order), `return` (to a blocked call) or `stream_wait`.
    kind,
    -- [ns] How long the delay may be; for `origin` more than any.
    slack_ns,
    -- Number of edges of the stretch.
    edge_count
) AS
WITH
last_work AS (
    SELECT trace_id, lane, gpu_op_id, next_last_gpu_op_id, next_slack_ns
    FROM critical_path.stream_stretch
    WHERE gpu_op_id = last_gpu_op_id
),

-- Times at which blocked calls returned, and calls that found nothing to wait for: these
-- would have returned as long after awaited work as others do.
returned AS (
    SELECT
        awaited.trace_id,
        awaited.gpu_op_id,
        call.thread_id,
        stretch.resume_id,
        CASE
            WHEN cause.cause_gpu_op_id = awaited.gpu_op_id THEN 0
            ELSE greatest(awaited.end_ns - gpu_op_end_ns - coalesce(median_ns, 0), 0)
        END AS slack_ns
    FROM graph.host_awaited AS awaited
    INNER JOIN staging.call AS call ON awaited.call_id = call.call_id
    INNER JOIN critical_path.thread_stretch AS stretch
        ON call.thread_id = stretch.thread_id AND call.end_ns = resume_ns
    LEFT JOIN graph.host_cause AS cause ON awaited.call_id = cause.call_id
    LEFT JOIN prediction.delay AS delay
        ON
            awaited.trace_id = delay.trace_id
            AND delay.cause = 'return'
            AND awaited.target = delay.kind
),

waiting AS (
    SELECT
        wait.trace_id,
        awaited_gpu_op_id,
        stretch.lane,
        last_gpu_op_id,
        stretch.slack_ns + CASE
            WHEN cause_gpu_op_id = awaited_gpu_op_id THEN 0
            ELSE greatest(work.start_ns - awaited.end_ns - delay_ns, 0)
        END AS slack_ns
    FROM prediction.gpu_awaited AS wait
    INNER JOIN critical_path.stream_stretch AS stretch USING (gpu_op_id)
    INNER JOIN graph.gpu_cause USING (gpu_op_id)
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    INNER JOIN graph.stream_position AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
),

edge AS (
    SELECT
        host_successor.trace_id,
        thread_id AS lane,
        resume_id AS stretch,
        CASE
            WHEN kind = 'end' THEN 0 ELSE coalesce(target_thread_id, last_work.lane)
        END AS target_lane,
        coalesce(target_resume_id, target_gpu_op_id, 0) AS target_stretch,
        kind,
        slack_ns
    FROM critical_path.host_successor
    LEFT JOIN last_work
        ON
            host_successor.trace_id = last_work.trace_id
            AND target_gpu_op_id = last_work.gpu_op_id
    UNION ALL
    SELECT
        trace_id, lane, gpu_op_id, lane, next_last_gpu_op_id, 'stream', next_slack_ns
    FROM last_work
    WHERE next_last_gpu_op_id IS NOT NULL
    UNION ALL
    SELECT
        returned.trace_id, last_work.lane, last_work.gpu_op_id, thread_id, resume_id,
        'return', slack_ns
    FROM returned
    INNER JOIN last_work ON returned.gpu_op_id = last_work.gpu_op_id
    UNION ALL
    SELECT
        waiting.trace_id, last_work.lane, last_work.gpu_op_id, waiting.lane,
        last_gpu_op_id, 'stream_wait', slack_ns
    FROM waiting
    INNER JOIN last_work ON awaited_gpu_op_id = last_work.gpu_op_id
    UNION ALL
    SELECT path.trace_id, last_work.lane, path.gpu_op_id, 0, 0, 'end', 0
    FROM critical_path.measured_path AS path
    INNER JOIN last_work ON path.gpu_op_id = last_work.gpu_op_id
    WHERE critical_path.tells_of_trace(scope, path.trace_id)
),

least_edge AS (
    SELECT
        trace_id, lane, stretch, target_lane, target_stretch, kind,
        min(slack_ns) AS slack_ns
    FROM edge
    GROUP BY ALL
),

stretch AS (
    SELECT trace_id, lane, stretch FROM least_edge
    UNION
    SELECT trace_id, target_lane, target_stretch FROM least_edge WHERE target_lane <> 0
)

SELECT
    trace_id, lane, stretch, target_lane, target_stretch, kind, slack_ns,
    count(*) OVER (PARTITION BY trace_id, lane, stretch)
FROM (
    FROM least_edge
    UNION ALL
    SELECT trace_id, lane, stretch, 0, 0, 'origin', 1_000_000_000_000_000_000 FROM stretch
);
