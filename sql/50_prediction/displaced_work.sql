-- GPU work that is not in its place on its stream in a variant: it is removed, or
-- overlapped (`prediction.moved_work`). Whatever waited for it, and whatever follows it
-- there, continues from what it followed (`prediction.stand_in`).
-- One row per variant and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE VIEW prediction.displaced_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id
) AS
SELECT variant_id, gpu_op_id
FROM prediction.removed_work
UNION ALL
SELECT variant_id, gpu_op_id
FROM prediction.moved_work
WHERE is_overlapped;
