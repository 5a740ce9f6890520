-- Ops that compute nothing themselves, because an op within them does their work: `aten::linear`
-- around `aten::addmm`, a backward op of autograd around the ops that it calls. Their own time
-- is dispatch, however large their tensors. It exists for one prediction
-- (`reference.op_estimate`).
-- One row per such op that computes on the host.
-- Key: op_id.
CREATE VIEW prediction.wrapping_op (
    -- The op.
    op_id
) AS
SELECT DISTINCT around.op_id
FROM reference.op_estimate AS work
INNER JOIN staging.op AS inside USING (op_id)
INNER JOIN staging.op AS around ON inside.parent_op_id = around.op_id
LEFT JOIN reference.op_estimate AS own ON around.op_id = own.op_id AND own.change = ''
WHERE
    work.change = ''
    AND NOT prediction.computes_nothing(inside.name)
    AND work.flops >= coalesce(own.flops, 0)
    -- Of unknown work, at least its arguments pass.
    AND work.bytes >= coalesce(own.bytes / 2, own.argument_bytes, 0);
