-- Where the time of a step goes, on each host thread that has an op or a call in it: the
-- spans of the thread's timeline within the step, and idle time before its first and after
-- its last top-level event. They partition the step exactly.
-- One row per span of a step and thread.
-- Key: step_id, thread_id, start_ns.
CREATE VIEW overhead.interval (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Host thread.
    thread_id,
    -- T1 (between top-level ops), T2 (from an op's start to its first launch), T3 (from its
    -- last launch to its end), T4 (a launch call), T5 (between launches, or a whole op
    -- without any), wait_stream, wait_device, wait_event, wait_copy, wait_queue,
    -- wait_thread, wait_rank, wait_data or idle. A wait lasts as long as its call; the part
    -- without a cause is in critical_path.step_time.
    type,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- The top-level op around the span.
    op_id,
    -- The launch or wait around the span.
    call_id,
    -- Position of the span on its thread, from 1.
    position
) AS
WITH
in_step AS MATERIALIZED (
    SELECT
        timeline.*,
        unnest(step_ids) AS step_id,
        op_id IS NOT NULL OR call_id IS NOT NULL AS is_active
    FROM overhead.timeline
    ASOF INNER JOIN staging.step_stretch AS stretch
        ON timeline.trace_id = stretch.trace_id AND timeline.start_ns >= stretch.start_ns
),

-- Threads with an op or a call in a step, with the time range.
lane AS (
    SELECT
        step_id,
        in_step.thread_id,
        any_value(in_step.thread_id = step.thread_id) AS is_step_thread,
        min(in_step.start_ns) AS first_active_ns,
        max(in_step.end_ns) AS last_active_ns
    FROM in_step
    INNER JOIN staging.step USING (step_id)
    WHERE is_active
    GROUP BY step_id, in_step.thread_id
)

SELECT
    run_id,
    trace_id,
    step_id,
    thread_id,
    CASE
        WHEN
            (type = 'T1' OR (type = 'wait_thread' AND NOT is_step_thread))
            AND (start_ns < first_active_ns OR start_ns >= last_active_ns)
            THEN 'idle'
        ELSE type
    END,
    start_ns,
    end_ns,
    op_id,
    call_id,
    position
FROM in_step
INNER JOIN lane USING (step_id, thread_id);
