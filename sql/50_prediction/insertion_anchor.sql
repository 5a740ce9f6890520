-- GPU work next to which scenarios insert other work: that parts work which is joined.
-- One row per scenario and GPU op.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.insertion_anchor (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- Whether something is inserted before it.
    has_before,
    -- Whether something is inserted after it.
    has_after
) AS
SELECT scenario, gpu_op_id, bool_or(place = 'before'), bool_or(place = 'after')
FROM prediction.edited_work AS work
INNER JOIN prediction.scenario_edit AS edit USING (scenario)
WHERE work.edit = edit.position AND action = 'insert' AND edit.target = 'gpu'
GROUP BY scenario, gpu_op_id;
