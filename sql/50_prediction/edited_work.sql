-- Which GPU work the edits of scenarios match: by its kind, collectives having one of their
-- own, and by its name or that of the op that launched it.
-- One row per edit of GPU work, and GPU op that it matches.
-- Key: scenario, edit, gpu_op_id.
CREATE VIEW prediction.edited_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Its duration, as measured.
    work_ns
) AS
SELECT scenario, position, gpu_op_id, work.end_ns - work.start_ns
FROM staging.gpu_op AS work
LEFT JOIN staging.op AS op ON work.op_id = op.op_id
INNER JOIN prediction.scenario_edit AS edit
    ON
        edit.target = 'gpu'
        AND (
            edit.type IS NULL
            OR edit.type = CASE WHEN is_collective THEN 'collective' ELSE work.kind END
        )
        AND (
            edit.name IS NULL
            OR regexp_full_match(work.name, edit.name)
            OR regexp_full_match(op.name, edit.name)
        );
