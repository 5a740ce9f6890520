-- The measured duration of every span of host time by itself, and what its end waits for. A
-- wait lasts until its cause is over: its own time is that of a call that finds nothing to
-- wait for. Any measured time beyond that and the typical delay is unexplained. A call that
-- is divided by a step of another thread waits once, in its last span.
-- One row per span.
-- Key: thread_id, position.
CREATE TABLE prediction.host_own (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Duration, without what it waits for.
    own_ns,
    -- GPU work whose end it waits for: the last to end, as measured. Everything that it
    -- waits for is in `graph.host_awaited`.
    awaited_gpu_op_id,
    -- Whether that work ended only after a call that finds nothing to wait for would have.
    is_blocked,
    -- The thread it waits for.
    awaited_thread_id,
    -- Span of the other thread whose end it waits for.
    awaited_position,
    -- Whether a trace need not show that it does (`prediction.thread_need`).
    is_ready,
    -- [ns] Delay after what it waits for.
    return_ns,
    -- [ns] Part of the measured duration without a cause.
    unexplained_ns
) AS
WITH
-- A thread waits for another's span: the one at whose end the other thread stopped, or woke
-- it.
thread_cause AS (
    SELECT
        waiting.thread_id,
        waiting.position,
        working.thread_id AS awaited_thread_id,
        working.position AS awaited_position
    FROM graph.thread_wait AS wait
    INNER JOIN overhead.timeline AS waiting
        ON wait.thread_id = waiting.thread_id AND wait.end_ns = waiting.end_ns
    INNER JOIN overhead.timeline AS working
        ON wait.worker_thread_id = working.thread_id AND wait.end_ns = working.end_ns
),

-- Of what a span needs from other threads, the last to be done; if it had to wait for one, its
-- own time is at most the usual one.
need AS (
    SELECT
        thread_id, position, awaited_thread_id, awaited_position, lag_ns,
        min(usual_ns) OVER of_span AS usual_ns
    FROM prediction.thread_need
    WINDOW of_span AS (PARTITION BY thread_id, position)
    QUALIFY row_number() OVER (of_span ORDER BY due_ns DESC, awaited_thread_id) = 1
),

-- All spans of a wait in a call.
call_wait AS (
    SELECT call_id, min(start_ns) AS start_ns, max(position) AS last_position
    FROM overhead.timeline
    WHERE type LIKE 'wait_%' AND call_id IS NOT NULL
    GROUP BY call_id
),

caused AS (
    SELECT
        span.*,
        span.type LIKE 'wait_%' AND span.position < last_position AS goes_on,
        span.end_ns - CASE
            WHEN span.type LIKE 'wait_%' THEN coalesce(call_wait.start_ns, span.start_ns)
            ELSE span.start_ns
        END AS measured_ns,
        host_wait.gpu_op_id AS found_gpu_op_id,
        host_wait.recorded,
        host_wait.end_ns - host_wait.gpu_op_end_ns AS return_ns,
        coalesce(thread_cause.awaited_thread_id, need.awaited_thread_id)
            AS awaited_thread_id,
        coalesce(thread_cause.awaited_position, need.awaited_position)
            AS awaited_position,
        CASE WHEN thread_cause.thread_id IS NULL THEN lag_ns END AS lag_ns,
        usual_ns,
        replace(span.type, 'wait_', '') AS target
    FROM overhead.timeline AS span
    LEFT JOIN call_wait USING (call_id)
    LEFT JOIN graph.host_wait
        ON
            span.call_id = host_wait.call_id
            AND span.type LIKE 'wait_%'
            AND span.position = last_position
    LEFT JOIN thread_cause USING (thread_id, position)
    LEFT JOIN need USING (thread_id, position)
),

delayed AS (
    SELECT
        caused.*,
        idle_call.median_ns AS call_ns,
        idle_call.cap_ns AS call_cap_ns,
        afterwards.median_ns AS return_median_ns,
        afterwards.cap_ns AS return_cap_ns,
        -- An unrecorded event may be any, unless it explains when the call ended.
        CASE
            WHEN
                recorded
                OR target <> 'event'
                OR measured_ns > coalesce(call_ns, 0)
                AND (
                    graph.is_well_before(return_ns, measured_ns)
                    OR graph.is_typical(return_ns, return_median_ns)
                )
                THEN found_gpu_op_id
        END AS awaited_gpu_op_id,
        awaited_gpu_op_id IS NOT NULL
        AND measured_ns - return_ns + coalesce(return_median_ns, 0) >= coalesce(call_ns, 0)
        AS is_blocked
    FROM caused
    LEFT JOIN prediction.delay AS idle_call
        ON
            caused.trace_id = idle_call.trace_id
            AND caused.target = idle_call.kind
            AND idle_call.cause = 'call'
    LEFT JOIN prediction.delay AS afterwards
        ON
            caused.trace_id = afterwards.trace_id
            AND caused.target = afterwards.kind
            AND afterwards.cause = 'return'
),

-- Measured duration of a span by itself.
own AS (
    SELECT
        *,
        CASE
            -- Nothing of its own, nor before a step ended in its middle.
            WHEN type IN ('wait_thread', 'wait_rank') OR coalesce(goes_on, false) THEN 0
            WHEN type LIKE 'wait_%' AND call_id IS NOT NULL
                THEN least(
                    measured_ns,
                    CASE
                        WHEN is_blocked THEN coalesce(call_ns, 0)
                        -- Without an instance to learn from: a call takes microseconds.
                        ELSE coalesce(call_cap_ns, 10_000)
                    END
                )
            ELSE least(measured_ns, usual_ns)
        END AS own_ns,
        coalesce(CASE WHEN is_blocked THEN greatest(return_ns - return_cap_ns, 0) END, 0)
        + CASE
            WHEN
                type NOT IN ('wait_thread', 'wait_rank')
                AND NOT coalesce(goes_on, false)
                AND NOT coalesce(is_blocked, false)
                AND usual_ns IS NULL
                THEN measured_ns - own_ns
            ELSE 0
        END AS unexplained_ns
    FROM delayed
)

SELECT
    run_id,
    trace_id,
    thread_id,
    position,
    own_ns,
    awaited_gpu_op_id,
    coalesce(is_blocked, false),
    awaited_thread_id,
    awaited_position,
    lag_ns IS NOT NULL,
    CASE
        WHEN awaited_gpu_op_id IS NULL THEN coalesce(lag_ns, 0)
        ELSE coalesce(return_median_ns, 0)
    END,
    unexplained_ns
FROM own;
