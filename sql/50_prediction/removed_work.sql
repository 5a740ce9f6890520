-- Which GPU work a variant removes: it is no longer on its stream, so nothing follows it
-- there, and nothing waits for it (`prediction.stand_in`).
-- One row per variant and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE VIEW prediction.removed_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id
) AS
SELECT variant_id, gpu_op_id
FROM prediction.gpu_edit
WHERE is_removed;
