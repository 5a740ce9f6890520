-- The traces in which edits select: those of their ranks, or all.
-- One row per edit and trace.
-- Key: scenario, edit, trace_id.
CREATE VIEW prediction.edit_trace (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id
) AS
SELECT scenario, position, trace_id
FROM prediction.scenario_edit AS edit
CROSS JOIN staging.trace
WHERE edit.rank IS NULL
UNION
SELECT scenario, edit, trace_id
FROM prediction.edit_number
INNER JOIN staging.trace AS trace ON trace.rank BETWEEN low AND high
WHERE field = 'rank';
