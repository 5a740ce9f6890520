-- What a delay of a host thread would delay: the work it launches, the threads that it
-- wakes, its own next wait, which absorbs the time it waits, and the end of a step.
-- One row per thread, time and what continues then.
-- Key: thread_id, at_ns, kind, target_gpu_op_id, target_thread_id, target_resume_id.
CREATE TABLE critical_path.host_successor (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- The stretch of the thread (`critical_path.thread_stretch`); 0 before the first.
    resume_id,
    -- [ns] Time on the thread after which it would be too late for this one.
    at_ns,
    -- `launch`, `thread`, `wait` or `end` (of a step, or of a trace without any).
    kind,
    -- The end of the stream's stretch that contains the launched work.
    target_gpu_op_id,
    -- The thread that continues.
    target_thread_id,
    -- Its stretch that starts then.
    target_resume_id,
    -- [ns] How long the delay may be before that is delayed.
    slack_ns
) AS
WITH
successor AS (
    SELECT
        work.trace_id,
        work.launch_thread_id AS thread_id,
        work.launch_start_ns + greatest(submit_ns - 1, 0) AS at_ns,
        'launch' AS kind,
        last_gpu_op_id AS target_gpu_op_id,
        NULL::BIGINT AS target_thread_id,
        NULL::BIGINT AS target_resume_id,
        stretch.slack_ns + CASE
            WHEN cause = 'launch' THEN 0
            ELSE greatest(work.start_ns - after_launch_ns, 0)
        END AS slack_ns
    FROM graph.stream_position AS work
    INNER JOIN critical_path.stream_stretch AS stretch USING (gpu_op_id)
    INNER JOIN graph.gpu_cause USING (gpu_op_id)
    INNER JOIN graph.typical_start USING (gpu_op_id)
    WHERE work.call_id IS NOT NULL
    UNION ALL
    SELECT
        cause.trace_id, cause_thread_id, resume_ns, 'thread', NULL, thread_id,
        stretch.resume_id, 0
    FROM graph.host_cause AS cause
    INNER JOIN critical_path.thread_stretch AS stretch USING (thread_id, resume_ns)
    WHERE cause IN ('join', 'fork')
    UNION ALL
    SELECT
        ready.trace_id, worker_thread_id, ready_ns, 'thread', NULL, thread_id,
        stretch.resume_id, resume_ns - ready_ns - lag_ns
    FROM graph.ready_wait AS ready
    INNER JOIN critical_path.thread_stretch AS stretch USING (thread_id, resume_ns)
    UNION ALL
    SELECT
        trace_id, thread_id, resume_ns - 1, 'wait', NULL, thread_id, resume_id, absorbed_ns
    FROM critical_path.thread_stretch
    UNION ALL
    SELECT trace_id, thread_id, end_ns, 'end', NULL, NULL, NULL, 0
    FROM critical_path.measured_path
    WHERE thread_id IS NOT NULL AND critical_path.tells_of_trace(scope, trace_id)
)

SELECT
    successor.trace_id,
    successor.thread_id,
    coalesce(latest.resume_id, 0),
    at_ns,
    kind,
    target_gpu_op_id,
    target_thread_id,
    target_resume_id,
    min(slack_ns)
FROM successor
ASOF LEFT JOIN critical_path.thread_stretch AS latest
    ON successor.thread_id = latest.thread_id AND at_ns >= latest.resume_ns
GROUP BY ALL;
