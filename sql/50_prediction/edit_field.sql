-- The fields of edits that select by times on host threads: an edit's matches lie in the
-- times of all of them.
-- One row per edit and such field.
-- Key: scenario, edit, field.
CREATE VIEW prediction.edit_field (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The field, as in `prediction.edit_range`; `op` for edits that select ops.
    field
) AS
SELECT scenario, position, 'op'
FROM prediction.scenario_edit
WHERE target = 'op' OR op IS NOT NULL OR shape IS NOT NULL
UNION ALL
SELECT scenario, position, 'annotation' FROM prediction.scenario_edit
WHERE annotation IS NOT NULL
UNION ALL
SELECT scenario, position, 'function' FROM prediction.scenario_edit
WHERE function IS NOT NULL
UNION ALL
SELECT scenario, position, 'module' FROM prediction.scenario_edit WHERE module IS NOT NULL
UNION ALL
SELECT scenario, position, 'phase' FROM prediction.scenario_edit WHERE phase IS NOT NULL
UNION ALL
SELECT scenario, position, 'step' FROM prediction.scenario_edit WHERE step IS NOT NULL
UNION ALL
SELECT scenario, position, 'thread' FROM prediction.scenario_edit WHERE thread IS NOT NULL
UNION ALL
SELECT scenario, position, 'node' FROM prediction.scenario_edit WHERE nodes IS NOT NULL;
