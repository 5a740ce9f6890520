-- Waits of consumers for overlapped GPU work (`prediction.overlap_consumer`); if a consumer
-- is removed, of what follows it on its stream.
-- One row per variant, overlapped GPU op, and GPU op that waits for it.
-- Key: variant_id, gpu_op_id, consumer_gpu_op_id.
CREATE VIEW prediction.overlapping_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The overlapped GPU op.
    gpu_op_id,
    -- The GPU op that waits for it.
    consumer_gpu_op_id
) AS
SELECT DISTINCT
    moved.variant_id,
    moved.gpu_op_id,
    CASE WHEN removed.gpu_op_id IS NULL THEN consumer_gpu_op_id ELSE place.next_gpu_op_id END
    AS waiting_gpu_op_id
FROM prediction.moved_work AS moved
INNER JOIN prediction.variant AS variant ON moved.variant_id = variant.variant_id
INNER JOIN prediction.overlap_consumer AS consumer
    ON variant.scenario = consumer.scenario AND moved.gpu_op_id = consumer.gpu_op_id
LEFT JOIN prediction.removed_work AS removed
    ON moved.variant_id = removed.variant_id AND consumer_gpu_op_id = removed.gpu_op_id
LEFT JOIN prediction.removed_place AS place
    ON moved.variant_id = place.variant_id AND consumer_gpu_op_id = place.gpu_op_id
LEFT JOIN prediction.moved_work AS beside
    ON moved.variant_id = beside.variant_id AND consumer_gpu_op_id = beside.gpu_op_id
INNER JOIN graph.stream_position AS work ON consumer_gpu_op_id = work.gpu_op_id
WHERE
    moved.is_overlapped
    AND waiting_gpu_op_id IS NOT NULL
    -- Work on its new stream is behind it anyway.
    AND (
        moved.device <> work.device
        OR moved.to_stream <> coalesce(beside.to_stream, work.stream)
    );
