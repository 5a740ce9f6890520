-- What a delay of a host thread would delay: the work it launches, the threads that it
-- lets go on, its own next wait, which takes up the time it waits, and the end of a step.
-- One row per thread, time and what goes on then.
-- Key: thread_id, at_ns, kind, target_kernel_id, target_thread_id, target_moment.
CREATE TABLE critical_path.host_out (
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Moment that it went on from (`graph.host_cause`); 0 before the first.
    moment,
    -- [ns] Time on the thread from which it would be too late for this one.
    at_ns,
    -- `launch`, `thread`, `wait` or `end` (of a step, or of a trace without any).
    kind,
    -- The end of the stretch of the stream that launched work lies in.
    target_kernel_id,
    -- The thread that goes on.
    target_thread_id,
    -- The moment from which it does.
    target_moment,
    -- [ns] How long the delay may be before that is delayed.
    slack_ns
) AS
WITH
-- A thread that went on had waited for some time; a delay before fits into that.
resumed AS (
    SELECT
        cause.*,
        coalesce(
            call.wait_start_ns, thread_wait.start_ns, cause.resume_ns
        ) AS wait_start_ns
    FROM graph.host_cause AS cause
    LEFT JOIN graph.host_call AS call ON cause.launch_id = call.launch_id
    LEFT JOIN graph.thread_wait AS thread_wait
        ON
            cause.cause = thread_wait.kind
            AND cause.thread_id = thread_wait.thread_id
            AND cause.resume_ns = thread_wait.end_ns
),

out AS (
    SELECT
        work.trace_id,
        work.launch_thread_id AS thread_id,
        work.launch_start_ns AS at_ns,
        'launch' AS kind,
        last_kernel_id AS target_kernel_id,
        NULL::BIGINT AS target_thread_id,
        NULL::BIGINT AS target_moment,
        stretch.slack_ns + CASE
            WHEN cause = 'launch' THEN 0
            ELSE greatest(work.start_ns - after_launch_ns, 0)
        END AS slack_ns
    FROM graph.stream_position AS work
    INNER JOIN critical_path.stream_stretch AS stretch USING (kernel_id)
    INNER JOIN graph.gpu_cause USING (kernel_id)
    INNER JOIN graph.usual_start USING (kernel_id)
    WHERE work.launch_id IS NOT NULL
    UNION ALL
    SELECT
        trace_id, cause_thread_id, resume_ns, 'thread', NULL, thread_id, moment, 0
    FROM graph.host_cause
    WHERE cause_thread_id IS NOT NULL
    UNION ALL
    SELECT
        trace_id, thread_id, resume_ns - 1, 'wait', NULL, thread_id, moment,
        greatest(resume_ns - wait_start_ns, 0)
    FROM resumed
    UNION ALL
    SELECT trace_id, thread_id, end_ns, 'end', NULL, NULL, NULL, 0
    FROM critical_path.measured_path
    WHERE
        thread_id IS NOT NULL
        AND (
            scope = 'step'
            OR (
                scope = 'trace' AND trace_id NOT IN (SELECT trace_id FROM staging.step)
            )
        )
)

SELECT
    out.trace_id,
    out.thread_id,
    coalesce(latest.moment, 0),
    at_ns,
    kind,
    target_kernel_id,
    target_thread_id,
    target_moment,
    min(slack_ns)
FROM out
ASOF LEFT JOIN graph.last_moment AS latest
    ON out.thread_id = latest.thread_id AND at_ns >= latest.resume_ns
GROUP BY ALL;
