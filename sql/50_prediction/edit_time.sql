-- The times on host threads that contain an edit's matches, for each of its fields that
-- select by time (`prediction.edit_field`).
-- One row per edit, field, thread and uninterrupted time.
-- Key: scenario, edit, field, thread_id, start_ns.
CREATE VIEW prediction.edit_time (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The field, as in `prediction.edit_field`.
    field,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
SELECT scenario, edit, field, thread_id, start_ns, end_ns
FROM prediction.edit_range
UNION ALL
SELECT edited.scenario, edit, 'op', thread_id, start_ns, max(end_ns)
FROM prediction.edited_op AS edited
INNER JOIN prediction.scenario_edit AS edits
    ON edited.scenario = edits.scenario AND edit = edits.position
WHERE part IS NULL
GROUP BY edited.scenario, edit, thread_id, start_ns
UNION ALL
SELECT scenario, edit, 'op', thread_id, start_ns, end_ns
FROM prediction.own_time;
