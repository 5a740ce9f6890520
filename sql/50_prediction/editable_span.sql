-- The spans of host time as edits see them. Idle time is as in `overhead.interval`: time of
-- a thread before its first and after its last top-level event in a step; likewise that of
-- a thread that does nothing in a step, and the time before and after everything that a
-- thread does.
-- One row per span of a host thread.
-- Key: thread_id, position.
CREATE VIEW prediction.editable_span (
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- The trace.
    trace_id,
    -- As in `overhead.timeline`, or `idle`.
    type,
    -- Name of the top-level op; for T4 and for waits in a call, that of the call; NULL for
    -- T1 and idle time.
    name,
    -- Kind of the name: `op` or `call`.
    text_kind,
    -- The top-level op around the span.
    op_id,
    -- [ns] Start of that op or call, or of the span itself if it has no name.
    named_start_ns,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
located AS (
    SELECT
        timeline.*,
        min(position) FILTER (op_id IS NOT NULL OR call_id IS NOT NULL) OVER lane
        AS first_position,
        max(position) FILTER (op_id IS NOT NULL OR call_id IS NOT NULL) OVER lane
        AS last_position,
        position IN (
            SELECT interval.position
            FROM overhead.interval AS interval
            WHERE interval.thread_id = timeline.thread_id AND interval.type = 'T1'
        ) AS is_within,
        EXISTS (
            SELECT 1
            FROM staging.step AS step
            WHERE
                step.trace_id = timeline.trace_id
                AND step.start_ns <= timeline.start_ns
                AND step.end_ns > timeline.start_ns
        ) AS is_in_step,
        type = 'T4' OR type LIKE 'wait_%' AND call_id IS NOT NULL AS is_call
    FROM overhead.timeline AS timeline
    WINDOW lane AS (PARTITION BY thread_id)
)

SELECT
    span.thread_id,
    span.position,
    span.trace_id,
    CASE
        WHEN span.type <> 'T1' OR is_within THEN span.type
        WHEN
            is_in_step
            OR position < first_position
            OR position > last_position
            OR first_position IS NULL
            THEN 'idle'
        ELSE span.type
    END,
    CASE WHEN is_call THEN call.name ELSE op.name END,
    CASE WHEN is_call THEN 'call' ELSE 'op' END,
    span.op_id,
    coalesce(CASE WHEN is_call THEN call.start_ns ELSE op.start_ns END, span.start_ns),
    span.start_ns,
    span.end_ns
FROM located AS span
LEFT JOIN staging.op AS op ON span.op_id = op.op_id
LEFT JOIN staging.call AS call ON span.call_id = call.call_id;
