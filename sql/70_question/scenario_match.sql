-- What does each edit of a scenario match?
-- One row per edit; empty unless scenarios are requested (`tracedb predict --scenario`).
-- Key: scenario, edit.
CREATE VIEW question.scenario_match (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What it changes, as in `prediction.scenario_edit`.
    target,
    -- The type; NULL: all.
    type,
    -- Pattern for names; NULL: all.
    name,
    -- Spans of host time, ops, GPU ops, events, waits or delays that it matches, in all traces.
    match_count,
    -- [ns] Their time as measured; for events, the estimated cost of recording them.
    matched_ns
) AS
WITH
matched AS (
    SELECT scenario, edit, chosen_ns AS matched_ns, 1 AS match_count
    FROM prediction.edited_span
    UNION ALL
    SELECT scenario, edit, work_ns, 1
    FROM prediction.edited_work
    UNION ALL
    -- For edits of ops, the spans are already included.
    SELECT scenario, edit, own_ns, 1
    FROM prediction.chosen_op
    WHERE target <> 'op'
    UNION ALL
    -- Ops without any time, in which nothing is.
    SELECT scenario, edit, 0, 1
    FROM prediction.edited_op
    INNER JOIN prediction.scenario_edit AS edits USING (scenario)
    WHERE edit = edits.position AND target = 'op' AND start_ns = end_ns
    UNION ALL
    -- Waits of one GPU op are at the same time.
    SELECT scenario, edit, max(waited_ns), count(*)
    FROM prediction.edited_wait
    -- Those of ops are already included as spans of host time.
    WHERE (scenario, edit) NOT IN (
        SELECT (scenario, position) FROM prediction.scenario_edit WHERE target = 'op'
    )
    GROUP BY scenario, edit, kind, waiting_id, position
    UNION ALL
    SELECT scenario, edit, delay_ns, 1
    FROM prediction.edited_delay
    UNION ALL
    SELECT scenario, position, event_count * event_ns, event_count
    FROM prediction.scenario_edit
    CROSS JOIN (
        SELECT event_count, event_ns
        FROM overhead.recorded_event
        INNER JOIN overhead.profiler_cost USING (trace_id)
    )
    WHERE target = 'profiler'
)

SELECT
    edit.scenario,
    position,
    target,
    type,
    name,
    coalesce(sum(match_count), 0)::BIGINT,
    coalesce(sum(matched_ns), 0)::BIGINT
FROM prediction.scenario_edit AS edit
LEFT JOIN matched ON edit.scenario = matched.scenario AND edit.position = matched.edit
GROUP BY edit.scenario, scenario_position, position, target, type, name
ORDER BY scenario_position, position;
