-- Ops that compute on the host and whose batch size scenarios change.
-- One row per scenario and op whose batch size it changes.
-- Key: scenario, op_id.
CREATE VIEW prediction.op_change (
    -- The scenario.
    scenario,
    -- The op.
    op_id,
    -- The trace.
    trace_id,
    -- New batch size of its tensors.
    to_batch,
    -- The recorded batch size given in the edit; 0: none.
    from_batch,
    -- Both as one text, as in `prediction.work_change`.
    change,
    -- Different values given by edits: at most one is allowed.
    value_count
) AS
SELECT
    op.scenario,
    op_id,
    any_value(op.trace_id),
    min(edit.to_batch) AS batch,
    coalesce(min(edit.from_batch), 0) AS recorded,
    concat_ws(
        ' ', 'batch=' || batch, CASE WHEN recorded > 0 THEN 'from_batch=' || recorded END
    ),
    count(DISTINCT {'to': edit.to_batch, 'from': edit.from_batch})
FROM prediction.chosen_op AS op
INNER JOIN prediction.scenario_edit AS edit
    ON op.scenario = edit.scenario AND op.edit = edit.position
GROUP BY op.scenario, op_id;
