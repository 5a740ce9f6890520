-- Waits of GPU work for other streams that edits select, of waits or of the delays after
-- them.
-- One row per edit, waiting GPU op and awaited GPU op.
-- Key: scenario, edit, gpu_op_id, awaited_gpu_op_id.
CREATE VIEW prediction.chosen_wait (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What the edit changes: `wait` or `delay`.
    target,
    -- The GPU work that waits.
    gpu_op_id,
    -- The GPU work that it waits for.
    awaited_gpu_op_id
) AS
SELECT scenario, edit, work.target, gpu_op_id, awaited_gpu_op_id
FROM prediction.chosen_work AS work
INNER JOIN prediction.scenario_edit AS edits USING (scenario)
INNER JOIN graph.gpu_awaited USING (gpu_op_id)
WHERE
    edit = edits.position
    AND work.target IN ('wait', 'delay')
    AND work.type = CASE work.target WHEN 'wait' THEN 'stream' ELSE 'stream_wait' END
    AND (
        NOT chooses_awaited
        OR (scenario, edit, gpu_op_id, awaited_gpu_op_id) IN (
            SELECT (scenario, edit, gpu_op_id, awaited_gpu_op_id)
            FROM prediction.edit_awaited
        )
    );
