-- The spans of host time with which each step starts and ends.
-- One row per step that takes time.
-- Key: step_id.
CREATE TABLE simulation.step_span (
    -- Step.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- Host thread of its mark.
    thread_id,
    -- Position on the thread of the span that starts with the step.
    first_position,
    -- Position of the span that ends with it.
    last_position
) AS
WITH
-- One at a time: spans are found by key, not compared with all spans of their thread.
found AS (
    SELECT step_id, span.position AS first_position, NULL::BIGINT AS last_position
    FROM staging.step AS step
    INNER JOIN overhead.timeline AS span
        ON step.thread_id = span.thread_id AND step.start_ns = span.start_ns
    UNION ALL
    SELECT step_id, NULL, span.position
    FROM staging.step AS step
    INNER JOIN overhead.timeline AS span
        ON step.thread_id = span.thread_id AND step.end_ns = span.end_ns
),

bound AS (
    SELECT step_id, max(first_position) AS first_position, max(last_position) AS last_position
    FROM found
    GROUP BY step_id
)

SELECT step_id, run_id, trace_id, step, thread_id, first_position, last_position
FROM staging.step
INNER JOIN bound USING (step_id)
WHERE end_ns > start_ns AND first_position IS NOT NULL AND last_position IS NOT NULL;
