-- The times in steps that edits may set others to: spans of host time (`overhead.sample`),
-- the time to wake other threads, and GPU work (`prediction.work_sample`), with a digest
-- that identifies each in a step.
-- One row per span of host time in a step, except waits, and per GPU op launched in one.
-- Key: kind, target_id, position.
CREATE VIEW prediction.time_sample (
    -- `host` (a span of host time) or `gpu` (GPU work).
    kind,
    -- The thread, or the GPU op.
    target_id,
    -- Position of the span on the thread; 0 for GPU work.
    position,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- Digest of what it is: the same in other steps, ranks and runs.
    key,
    -- Whether it is a collective.
    is_collective,
    -- [ns] Measured duration.
    sample_ns
) AS
WITH
-- Idle time in which a thread that waited for another is woken; in several steps, as when
-- these overlap, it counts in the first.
woken AS (
    SELECT span.thread_id, span.position, min(step_id) AS step_id
    FROM overhead.interval AS span
    INNER JOIN overhead.timeline AS before
        ON span.thread_id = before.thread_id AND span.position = before.position + 1
    INNER JOIN staging.step AS step USING (step_id)
    WHERE
        span.type = 'idle'
        AND before.type = 'wait_thread'
        AND span.thread_id <> step.thread_id
    GROUP BY span.thread_id, span.position
)

SELECT
    'host',
    sample.thread_id,
    position,
    sample.run_id,
    sample.trace_id,
    step,
    hash('host', role, type, sample.name, ordinal),
    false,
    sample_ns
FROM overhead.sample AS sample
INNER JOIN staging.step AS step ON sample.step_id = step.step_id
UNION ALL
SELECT
    'host',
    woken.thread_id,
    woken.position,
    span.run_id,
    span.trace_id,
    step,
    hash(
        'woken',
        role,
        row_number() OVER (PARTITION BY step_id, woken.thread_id ORDER BY woken.position)
    ),
    false,
    span.end_ns - span.start_ns
FROM woken
INNER JOIN overhead.timeline AS span USING (thread_id, position)
INNER JOIN staging.step AS step USING (step_id)
INNER JOIN staging.thread AS thread USING (thread_id)
UNION ALL
SELECT
    'gpu',
    gpu_op_id,
    0,
    sample.run_id,
    sample.trace_id,
    step,
    hash('gpu', role, kind, sample.name, ordinal, part),
    is_collective,
    sample_ns
FROM prediction.work_sample AS sample
INNER JOIN staging.step AS step ON sample.step_id = step.step_id;
