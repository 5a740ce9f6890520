-- Which ops that compute on the host scenarios put at another batch size.
-- One row per scenario and op of which it changes that.
-- Key: scenario, op_id.
CREATE VIEW prediction.op_change (
    -- The scenario.
    scenario,
    -- The op.
    op_id,
    -- The trace it is from.
    trace_id,
    -- The batch size that its tensors then have.
    to_batch,
    -- The batch size that the edit says it was recorded with; 0: none.
    from_batch,
    -- Both as one text, as in `prediction.work_change`.
    change,
    -- Different values that edits give: no more than one can be.
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
