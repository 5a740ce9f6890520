-- What removed GPU work followed, by itself: the last kept work before it on its stream,
-- and on each other stream the last work that it, or removed work right before it, waited
-- for. That may be removed, too.
-- One row per variant, removed GPU op and GPU op that it followed.
-- Key: variant_id, gpu_op_id, cause_gpu_op_id.
CREATE VIEW prediction.removed_cause (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The removed GPU op.
    gpu_op_id,
    -- The GPU op that it followed.
    cause_gpu_op_id,
    -- [ns] Delay after that, if it is awaited; NULL if it is earlier on the stream.
    delay_ns
) AS
WITH
-- Of everything that the removed work of a stretch waited for so far, the last on each
-- stream.
waited AS (
    SELECT
        place.variant_id,
        place.first_gpu_op_id,
        place.position,
        cause.device,
        cause.stream,
        max({
            'position': cause.position,
            'gpu_op_id': cause.gpu_op_id,
            'delay_ns': awaited.delay_ns
        }) OVER (
            PARTITION BY place.variant_id, first_gpu_op_id, cause.device, cause.stream
            ORDER BY place.position
        ) AS last
    FROM prediction.removed_place AS place
    INNER JOIN prediction.variant_wait AS awaited
        ON place.variant_id = awaited.variant_id AND place.gpu_op_id = awaited.gpu_op_id
    INNER JOIN graph.stream_position AS cause
        ON awaited.awaited_gpu_op_id = cause.gpu_op_id
),

awaited_stream AS (
    SELECT DISTINCT variant_id, first_gpu_op_id, device, stream FROM waited
)

SELECT DISTINCT
    place.variant_id, trace_id, place.gpu_op_id, last.gpu_op_id, last.delay_ns
FROM (
    SELECT place.*, device, stream
    FROM prediction.removed_place AS place
    INNER JOIN awaited_stream USING (variant_id, first_gpu_op_id)
) AS place
ASOF INNER JOIN waited
    ON
        place.variant_id = waited.variant_id
        AND place.first_gpu_op_id = waited.first_gpu_op_id
        AND place.device = waited.device
        AND place.stream = waited.stream
        AND place.position >= waited.position
UNION ALL
SELECT variant_id, trace_id, gpu_op_id, previous_gpu_op_id, NULL
FROM prediction.removed_place
WHERE previous_gpu_op_id IS NOT NULL;
