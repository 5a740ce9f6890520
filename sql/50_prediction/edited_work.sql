-- Which GPU work the edits of scenarios match (`prediction.chosen_work`).
-- One row per edit of GPU work or of ops, and GPU op that it matches.
-- Key: scenario, edit, gpu_op_id.
CREATE VIEW prediction.edited_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Its measured duration.
    work_ns
) AS
SELECT scenario, edit, gpu_op_id, work_ns
FROM prediction.chosen_work
WHERE target IN ('gpu', 'op');
