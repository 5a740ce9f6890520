-- Ops that lose child ops to edits, and stay: what they do instead is not known. Ranges,
-- compiled regions and ops of autograd's engine only call others.
-- Without edits it is empty.
-- One row per edit and such op.
-- Key: scenario, edit, op_id.
CREATE VIEW prediction.reduced_op (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The op.
    op_id,
    -- Its name.
    name
) AS
WITH
removed AS (
    SELECT edited.scenario, edit, op_id, edited.top_op_id
    FROM prediction.edited_op AS edited
    INNER JOIN prediction.scenario_edit AS edit
        ON edited.scenario = edit.scenario AND edit = edit.position
    WHERE action = 'remove' AND target = 'op' AND edit.part IS NULL
)

SELECT DISTINCT scenario, edit, around.op_id, around.name
FROM removed
INNER JOIN staging.op AS inside USING (op_id)
INNER JOIN staging.op AS around ON inside.parent_op_id = around.op_id
ANTI JOIN removed AS gone
    ON removed.scenario = gone.scenario AND gone.op_id IN (around.op_id, around.top_op_id)
WHERE
    NOT around.is_annotation
    AND contains(around.name, '::')
    AND NOT regexp_matches(around.name, '^autograd::|^torch::autograd::');
