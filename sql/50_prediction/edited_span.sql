-- Which spans of host time the edits of scenarios match. Edits without a type are of T1 to
-- T5: not of waits, nor of idle time. Idle is what `overhead.interval` calls so: time of a
-- thread before its first and after its last top-level event in a step; likewise that of a
-- thread that does nothing in a step, and before and after all that a thread does. A name
-- is that of the op, of T4 that of the call; T1 and idle time have none.
-- One row per edit of host time, and span that it matches.
-- Key: scenario, edit, thread_id, position.
CREATE VIEW prediction.edited_span (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Its duration, as measured.
    span_ns
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
        ) AS is_in_step
    FROM overhead.timeline AS timeline
    WINDOW lane AS (PARTITION BY thread_id)
),

typed AS (
    SELECT
        located.* REPLACE (
            CASE
                WHEN located.type <> 'T1' OR is_within THEN located.type
                WHEN
                    is_in_step
                    OR position < first_position
                    OR position > last_position
                    OR first_position IS NULL
                    THEN 'idle'
                ELSE located.type
            END AS type
        ),
        CASE located.type WHEN 'T4' THEN call.name ELSE op.name END AS name
    FROM located
    LEFT JOIN staging.op AS op ON located.op_id = op.op_id
    LEFT JOIN staging.call AS call ON located.call_id = call.call_id
)

SELECT
    scenario,
    edit.position,
    span.thread_id,
    span.position,
    span.end_ns - span.start_ns
FROM typed AS span
INNER JOIN prediction.scenario_edit AS edit
    ON
        edit.target = 'host'
        AND (edit.type = span.type OR edit.type IS NULL AND span.type LIKE 'T_')
        AND (edit.name IS NULL OR regexp_full_match(span.name, edit.name));
