-- What does the thread of the steps do? By overhead type, over all steps of a trace (their
-- marks); without steps, over the whole main thread. In a step without ops or calls of its
-- own, the thread is idle.
-- One row per trace and overhead type.
-- Key: trace_id, type.
-- Counts: staging.step, overhead.counted_span.
CREATE VIEW question.host_time (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- T1..T5, a named wait, or idle, as in `overhead.interval`, but `idle_python` for idle
    -- time in Python functions (`overhead.idle_python`).
    type,
    -- [ns] Time.
    time_ns,
    -- [1] Its share; the shares of a trace add up to 1.
    time_share
) AS
WITH
span AS (
    SELECT interval.trace_id, type, interval.end_ns - interval.start_ns AS span_ns
    FROM overhead.interval AS interval
    INNER JOIN staging.step AS step
        ON interval.step_id = step.step_id AND interval.thread_id = step.thread_id
    UNION ALL
    SELECT
        python.trace_id,
        unnest(['idle_python', 'idle']),
        unnest([python.time_ns, -python.time_ns])
    FROM overhead.idle_python AS python
    INNER JOIN staging.step USING (step_id)
    UNION ALL
    SELECT trace_id, 'idle', end_ns - start_ns
    FROM staging.step AS step
    ANTI JOIN overhead.interval AS interval
        ON step.step_id = interval.step_id AND step.thread_id = interval.thread_id
    UNION ALL
    SELECT span.trace_id, type, end_ns - start_ns
    FROM overhead.counted_span AS span
    INNER JOIN staging.thread AS thread USING (thread_id)
    WHERE role = 'main' AND step_id IS NULL
)

SELECT
    run_id,
    trace_id,
    rank,
    type,
    sum(span_ns)::BIGINT AS time_ns,
    time_ns / nullif(sum(sum(span_ns)) OVER (PARTITION BY trace_id), 0)
FROM span
INNER JOIN staging.trace USING (trace_id)
GROUP BY run_id, trace_id, rank, type
HAVING type <> 'idle' OR sum(span_ns) > 0
ORDER BY run_id, rank, trace_id, time_ns DESC, type;
