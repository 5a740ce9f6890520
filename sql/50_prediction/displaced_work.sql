-- GPU work that a variant has not in its place on its stream: it is removed, or overlapped
-- (`prediction.moved_work`). What waited for it, and what follows it there, goes on from what
-- it came after (`prediction.stand_in`).
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
