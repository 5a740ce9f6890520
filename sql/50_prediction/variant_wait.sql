-- The start delay of GPU work after awaited work on other streams in a variant
-- (`prediction.gpu_awaited`), after the edits of delays, without the waits that it removes.
-- One row per variant, waiting GPU op and awaited GPU op.
-- Key: variant_id, gpu_op_id, awaited_gpu_op_id.
CREATE VIEW prediction.variant_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU work that waits.
    gpu_op_id,
    -- The GPU work that it waits for.
    awaited_gpu_op_id,
    -- [ns] Delay after that.
    delay_ns
) AS
SELECT
    variant.variant_id,
    awaited.gpu_op_id,
    awaited.awaited_gpu_op_id,
    prediction.edited_delay_ns(delay_ns, edit.factor, edit.add_ns)
FROM prediction.gpu_awaited AS awaited
CROSS JOIN prediction.variant AS variant
LEFT JOIN prediction.delay_edit AS edit
    ON
        variant.variant_id = edit.variant_id
        AND awaited.gpu_op_id = edit.waiting_id
        AND awaited.awaited_gpu_op_id = edit.awaited_gpu_op_id
        AND edit.kind = 'stream_wait'
ANTI JOIN prediction.removed_stream_wait AS removed
    ON
        variant.scenario = removed.scenario
        AND awaited.gpu_op_id = removed.gpu_op_id
        AND awaited.awaited_gpu_op_id = removed.awaited_gpu_op_id
WHERE is_simulated;
