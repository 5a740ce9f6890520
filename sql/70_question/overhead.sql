-- Where does the time of each step go on each host thread?
-- One row per step, thread and overhead type.
-- Key: step_id, thread_id, type.
CREATE VIEW question.overhead (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- Host thread.
    thread_id,
    -- Role of the thread.
    role,
    -- T1..T5, a named wait, or idle.
    type,
    -- Spans of that type.
    span_count,
    -- [ns] Their time.
    time_ns,
    -- [1] Their share of the step.
    time_share
) AS
SELECT
    interval.trace_id,
    rank,
    interval.step_id,
    step,
    interval.thread_id,
    role,
    type,
    count(*),
    sum(interval.end_ns - interval.start_ns)::BIGINT AS time_ns,
    time_ns / any_value(nullif(step.end_ns - step.start_ns, 0))
FROM overhead.interval
INNER JOIN staging.trace AS trace ON interval.trace_id = trace.trace_id
INNER JOIN staging.step ON interval.step_id = step.step_id
INNER JOIN staging.thread ON interval.thread_id = thread.thread_id
GROUP BY ALL
ORDER BY interval.step_id, interval.thread_id, time_ns DESC, type;
