-- The spans of host time that edits select from: by target, type, name and rank; for edits
-- that select ops, the spans with a part of such ops. Edits of host time without a type
-- apply to T1 to T5: neither to waits, nor to idle time; those of ops apply to everything
-- in them. A rank that arrived last at a collective on the CPU waited for none, but may
-- have to once others come later: that wait can be selected as well, at the end of the span
-- before it, and takes no time. So can that for a message which had come.
-- One row per edit, and span that it may select.
-- Key: scenario, edit, thread_id, position.
CREATE VIEW prediction.edit_candidate (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What the edit changes, as in `prediction.scenario_edit`.
    target,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- The trace.
    trace_id,
    -- Type of the span, as in `prediction.editable_span`.
    type,
    -- [ns] Start of its op or call, as in that relation.
    named_start_ns,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
target_type (target, type, span_type) AS (
    SELECT 'host', '', type
    FROM (SELECT unnest(['T1', 'T2', 'T3', 'T4', 'T5']) AS type)
    UNION ALL
    SELECT 'host', type, type
    FROM (SELECT unnest(['T1', 'T2', 'T3', 'T4', 'T5', 'idle', 'wait_data']) AS type)
    UNION ALL
    -- A thread that is in a Python function is not idle.
    SELECT 'host', 'function', type
    FROM (SELECT unnest(['T1', 'T2', 'T3', 'T4', 'T5', 'idle']) AS type)
    UNION ALL
    SELECT 'op', '', type
    FROM (
        SELECT unnest(
            [
                'T2', 'T3', 'T4', 'T5', 'wait_stream', 'wait_device', 'wait_event',
                'wait_copy', 'wait_queue', 'wait_data'
            ]
        ) AS type
    )
    UNION ALL
    SELECT target, unnest(['', edit_type]), type
    FROM (VALUES ('wait', 'host'), ('delay', 'return')) AS known (target, edit_type)
    CROSS JOIN (
        SELECT unnest(
            ['wait_stream', 'wait_device', 'wait_event', 'wait_copy', 'wait_queue']
        ) AS type
    )
    UNION ALL
    SELECT unnest(['wait', 'wait', 'delay', 'delay']), unnest(['', 'thread', '', 'thread']),
        'wait_thread'
    UNION ALL
    SELECT 'wait', unnest(['', 'rank']), 'wait_rank'
),

edit AS (
    SELECT
        scenario,
        position AS edit,
        target,
        CASE
            WHEN type IS NOT NULL THEN type
            WHEN target = 'host' AND function IS NOT NULL THEN 'function'
            ELSE ''
        END AS type,
        name,
        target = 'op' OR op IS NOT NULL OR shape IS NOT NULL AS chooses_ops
    FROM prediction.scenario_edit
),

span AS MATERIALIZED (
    FROM prediction.editable_span
    UNION ALL
    SELECT
        thread_id, position, span.trace_id, 'wait_rank', NULL, NULL, NULL, end_ns, end_ns,
        end_ns
    FROM prediction.rank_meeting AS meeting
    INNER JOIN overhead.timeline AS span USING (thread_id, position)
    WHERE (position = arrival_position OR is_message) AND span.type NOT LIKE 'wait_%'
),

pair AS (
    SELECT scenario, edit, thread_id, position
    FROM prediction.edit_text AS chosen
    INNER JOIN edit USING (scenario, edit)
    INNER JOIN span ON text = span.name AND chosen.text_kind = span.text_kind
    WHERE field = 'name' AND target <> 'op'
    UNION ALL
    SELECT DISTINCT scenario, edit, span.thread_id, span.position
    FROM prediction.edited_op AS op
    INNER JOIN edit USING (scenario, edit)
    INNER JOIN span
        ON top_op_id = span.op_id AND op.start_ns < span.end_ns AND op.end_ns > span.start_ns
    WHERE target = 'op' OR edit.name IS NULL
    UNION ALL
    SELECT scenario, edit, thread_id, position
    FROM edit
    INNER JOIN target_type USING (target, type)
    INNER JOIN span ON span_type = span.type
    WHERE edit.name IS NULL AND NOT chooses_ops
)

SELECT
    scenario, edit, edit.target, thread_id, position, trace_id, span.type, named_start_ns,
    start_ns, end_ns
FROM pair
INNER JOIN edit USING (scenario, edit)
INNER JOIN span USING (thread_id, position)
INNER JOIN target_type
    ON
        edit.target = target_type.target
        AND edit.type = target_type.type
        AND span.type = span_type
INNER JOIN prediction.edit_trace USING (scenario, edit, trace_id);
