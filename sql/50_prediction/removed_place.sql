-- The former position of GPU work that a variant does not have in its place
-- (`prediction.displaced_work`): the remaining work on both sides.
-- Without edits it is empty.
-- One row per variant and such GPU op.
-- Key: variant_id, gpu_op_id.
CREATE TABLE prediction.removed_place (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- Position on the stream.
    position,
    -- The first of such consecutive work there.
    first_gpu_op_id,
    -- The last remaining work before it; NULL if there is none.
    previous_gpu_op_id,
    -- The first remaining work after it; NULL if there is none.
    next_gpu_op_id
) AS
WITH
-- Streams that lose work.
touched AS (
    SELECT DISTINCT variant_id, trace_id, device, stream
    FROM prediction.displaced_work
    INNER JOIN graph.stream_position USING (gpu_op_id)
),

placed AS (
    SELECT
        touched.variant_id,
        work.*,
        removed.gpu_op_id IS NULL AS is_kept,
        CASE WHEN is_kept THEN work.gpu_op_id END AS kept_gpu_op_id
    FROM touched
    INNER JOIN graph.stream_position AS work USING (trace_id, device, stream)
    LEFT JOIN prediction.displaced_work AS removed
        ON
            touched.variant_id = removed.variant_id
            AND work.gpu_op_id = removed.gpu_op_id
),

with_stretch AS (
    SELECT
        *,
        count_if(is_kept) OVER before AS stretch,
        last_value(kept_gpu_op_id IGNORE NULLS) OVER before AS last_gpu_op_id,
        first_value(kept_gpu_op_id IGNORE NULLS) OVER behind AS following_gpu_op_id
    FROM placed
    WINDOW
        before AS (
            PARTITION BY variant_id, trace_id, device, stream ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ),
        behind AS (
            PARTITION BY variant_id, trace_id, device, stream ORDER BY position
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
)

SELECT
    variant_id,
    run_id,
    trace_id,
    gpu_op_id,
    position,
    first_value(gpu_op_id) OVER (
        PARTITION BY variant_id, trace_id, device, stream, stretch ORDER BY position
    ),
    last_gpu_op_id,
    following_gpu_op_id
FROM with_stretch
WHERE NOT is_kept;
