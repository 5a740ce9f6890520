-- Host threads divided where something else may delay them: when a thread continued after a
-- wait (`graph.host_cause`), and where it would wait if something were later: at the ends of
-- calls that found their work over, and at ops that need what another thread had already done
-- (`graph.ready_wait`).
-- One row per thread and such a time.
-- Key: thread_id, resume_ns.
CREATE TABLE critical_path.thread_stretch (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Start of the stretch.
    resume_ns,
    -- Its number in the trace: the last `resume_id` at that time (`graph.host_cause`), or
    -- minus the call or op.
    resume_id,
    -- [ns] How long a delay before it may be without delaying it: the time waited, beyond
    -- that of a call that finds nothing to wait for.
    absorbed_ns
) AS
WITH
awaited AS (
    SELECT
        trace_id, call_id, target, end_ns, max(gpu_op_end_ns) AS gpu_op_end_ns
    FROM graph.host_awaited
    GROUP BY trace_id, call_id, target, end_ns
),

blocking AS (
    SELECT
        awaited.trace_id,
        call.thread_id,
        awaited.call_id,
        awaited.end_ns,
        CASE
            WHEN cause.call_id IS NOT NULL
                OR gpu_op_end_ns + coalesce(afterwards.median_ns, 0) >= awaited.end_ns
                THEN greatest(
                    awaited.end_ns - wait_start_ns
                    - CASE
                        WHEN call.kind = 'wait' THEN coalesce(idle_call.median_ns, 0) ELSE 0
                    END,
                    0
                )
            ELSE 0
        END AS absorbed_ns,
        coalesce(cause.resume_id, -awaited.call_id) AS resume_id
    FROM awaited
    INNER JOIN graph.host_call AS call ON awaited.call_id = call.call_id
    LEFT JOIN graph.host_cause AS cause ON awaited.call_id = cause.call_id
    LEFT JOIN prediction.delay AS idle_call
        ON
            awaited.trace_id = idle_call.trace_id
            AND awaited.target = idle_call.kind
            AND idle_call.cause = 'call'
    LEFT JOIN prediction.delay AS afterwards
        ON
            awaited.trace_id = afterwards.trace_id
            AND awaited.target = afterwards.kind
            AND afterwards.cause = 'return'
)

SELECT trace_id, thread_id, resume_ns, max(resume_id), min(absorbed_ns)
FROM (
    SELECT trace_id, thread_id, end_ns AS resume_ns, resume_id, absorbed_ns
    FROM blocking
    UNION ALL
    SELECT event.trace_id, event.thread_id, resume_ns, -node_id, 0
    FROM graph.ready_wait AS ready
    INNER JOIN graph.top_level_event AS event
        ON ready.thread_id = event.thread_id AND resume_ns = event.start_ns
    WHERE is_op
    UNION ALL
    SELECT
        cause.trace_id,
        cause.thread_id,
        resume_ns,
        resume_id,
        greatest(resume_ns - coalesce(wait.start_ns, resume_ns), 0)
    FROM graph.host_cause AS cause
    LEFT JOIN graph.thread_wait AS wait
        ON
            cause.cause = wait.kind
            AND cause.thread_id = wait.thread_id
            AND resume_ns = wait.end_ns
    WHERE cause.call_id IS NULL
)
GROUP BY trace_id, thread_id, resume_ns;
