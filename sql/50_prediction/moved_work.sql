-- GPU work that scenarios move to another stream, and what it stays behind and before on
-- its own stream: what it depends on, and what depends on it, may be any of that. For
-- overlapped work, what depends on it is known (`prediction.overlap_consumer`).
-- Without edits it is empty.
-- One row per variant and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE TABLE prediction.moved_work (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- Its device.
    device,
    -- The stream that it moves to; negative for a new one, for everything that an edit
    -- overlaps.
    to_stream,
    -- Whether it is overlapped.
    is_overlapped,
    -- [ns] Start of its launch, which puts it behind what was launched there before.
    launch_start_ns,
    -- The last work before it on its own stream that stays there; NULL if there is none.
    previous_gpu_op_id,
    -- The first work after it that stays there; NULL if there is none, and for overlapped
    -- work.
    next_gpu_op_id,
    -- The work before it on its own stream, if that moves to another stream than it; work
    -- that is removed or overlapped does not count.
    parted_gpu_op_id
) AS
WITH
moved AS (
    SELECT variant_id, gpu_op_id, is_overlapped, new_stream
    FROM prediction.new_stream
    INNER JOIN prediction.variant USING (scenario)
    ANTI JOIN prediction.removed_work USING (variant_id, gpu_op_id)
),

-- All work of streams that something moves from.
touched AS (
    SELECT DISTINCT variant_id, trace_id, device, stream
    FROM moved
    INNER JOIN graph.stream_position USING (gpu_op_id)
),

placed AS (
    SELECT
        touched.variant_id,
        work.*,
        new_stream,
        is_overlapped,
        CASE
            WHEN moved.gpu_op_id IS NULL AND removed.gpu_op_id IS NULL THEN work.gpu_op_id
        END AS staying_gpu_op_id,
        CASE
            WHEN NOT coalesce(is_overlapped, removed.gpu_op_id IS NOT NULL)
                THEN {'gpu_op_id': work.gpu_op_id, 'stream': new_stream}
        END AS ordered
    FROM touched
    INNER JOIN graph.stream_position AS work USING (trace_id, device, stream)
    LEFT JOIN moved
        ON touched.variant_id = moved.variant_id AND work.gpu_op_id = moved.gpu_op_id
    LEFT JOIN prediction.removed_work AS removed
        ON touched.variant_id = removed.variant_id AND work.gpu_op_id = removed.gpu_op_id
)

SELECT
    variant_id,
    trace_id,
    gpu_op_id,
    device,
    new_stream,
    is_overlapped,
    coalesce(launch_start_ns, start_ns),
    last_value(staying_gpu_op_id IGNORE NULLS) OVER (
        PARTITION BY variant_id, trace_id, device, stream ORDER BY position
    ),
    CASE WHEN NOT is_overlapped THEN
        first_value(staying_gpu_op_id IGNORE NULLS) OVER (
            PARTITION BY variant_id, trace_id, device, stream ORDER BY position
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
    END,
    CASE WHEN before.stream <> new_stream THEN before.gpu_op_id END
FROM (
    SELECT
        *,
        last_value(ordered IGNORE NULLS) OVER (
            PARTITION BY variant_id, trace_id, device, stream ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
    FROM placed
)
QUALIFY new_stream IS NOT NULL;
