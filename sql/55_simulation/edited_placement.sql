-- Placement of GPU work that is inserted, on another stream, or launched by another call,
-- like `simulation.gpu_placement` for all other work: moved work comes after what was
-- launched earlier on its new stream, captured work (`prediction.captured_work`) where its
-- graph is launched.
-- Without edits it is empty.
-- One row per variant and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE TABLE simulation.edited_placement (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The stream as a lane: minus the first work on it as recorded; for a stream that the
    -- trace does not have, minus the first work that moves there, and 10^12.
    lane,
    -- Position on the stream: a fraction before or after that of recorded work.
    position,
    -- [ns] Measured start, from the start of the trace, for work without a launch.
    start_ns,
    -- Host thread of the launch; NULL if the launch is not in the trace.
    launch_thread_id,
    -- Position of the span on that thread.
    launch_position,
    -- [ns] From the start of the launch to that of the span.
    launch_back_ns
) AS
WITH
-- Streams of the trace that work moves to.
stream AS (
    SELECT trace_id, device, stream, any_value(lane) AS lane
    FROM simulation.gpu_placement
    INNER JOIN graph.stream_position USING (trace_id, gpu_op_id)
    SEMI JOIN prediction.moved_work AS moved USING (trace_id, device)
    GROUP BY trace_id, device, stream
),

moved AS (
    SELECT
        moved.variant_id,
        moved.trace_id,
        moved.gpu_op_id,
        coalesce(
            stream.lane,
            -1_000_000_000_000 - min(moved.gpu_op_id) OVER (
                PARTITION BY moved.variant_id, moved.trace_id, moved.device, moved.to_stream
            )
        ) AS lane,
        coalesce(earlier.position, 0) AS position,
        moved.launch_start_ns AS tie_ns
    FROM prediction.moved_work AS moved
    LEFT JOIN stream
        ON
            moved.trace_id = stream.trace_id
            AND moved.device = stream.device
            AND moved.to_stream = stream.stream
    ASOF LEFT JOIN graph.launched_work AS earlier
        ON
            moved.trace_id = earlier.trace_id
            AND moved.device = earlier.device
            AND moved.to_stream = earlier.stream
            AND moved.launch_start_ns > earlier.launched_ns
),

-- After recorded work comes what moves there, in launch order (`tie_ns`), and next to
-- either what is inserted.
ordered AS (
    SELECT
        variant_id, moved.trace_id, gpu_op_id, moved.lane, moved.position, tie_ns,
        gpu_op_id AS beside_gpu_op_id, 0 AS side, 0 AS edit, start_ns, launch_thread_id, launch_position,
        0 AS launch_back_ns
    FROM moved
    INNER JOIN simulation.gpu_placement USING (gpu_op_id)
    UNION ALL
    SELECT
        inserted.variant_id,
        inserted.trace_id,
        inserted.gpu_op_id,
        coalesce(moved.lane, beside.lane),
        coalesce(moved.position, beside.position),
        coalesce(tie_ns, -1),
        beside_gpu_op_id,
        CASE WHEN is_after THEN 1 ELSE -1 END,
        edit,
        start_ns,
        inserted.launch_thread_id,
        inserted.launch_position,
        launch_back_ns
    FROM prediction.inserted_work AS inserted
    INNER JOIN simulation.gpu_placement AS beside ON beside_gpu_op_id = beside.gpu_op_id
    LEFT JOIN moved
        ON inserted.variant_id = moved.variant_id AND beside_gpu_op_id = moved.gpu_op_id
),

ranked AS (
    SELECT
        *,
        tie_ns = -1 AND side < 0 AS is_before,
        row_number() OVER (
            PARTITION BY variant_id, lane, position
            ORDER BY tie_ns, start_ns, beside_gpu_op_id, side, edit
        ) - count_if(is_before) OVER (PARTITION BY variant_id, lane, position) AS ordinal
    FROM ordered
),

captured AS (
    SELECT variant_id, captured.*
    FROM prediction.captured_work AS captured
    INNER JOIN prediction.variant USING (scenario)
)

SELECT
    ranked.variant_id, ranked.trace_id, ranked.gpu_op_id, lane,
    position + (ordinal - is_before::INTEGER) / 134_217_728,
    start_ns,
    coalesce(captured.launch_thread_id, ranked.launch_thread_id),
    coalesce(captured.launch_position, ranked.launch_position),
    launch_back_ns
FROM ranked
LEFT JOIN captured
    ON ranked.variant_id = captured.variant_id AND ranked.gpu_op_id = captured.gpu_op_id
UNION ALL
SELECT
    captured.variant_id, captured.trace_id, captured.gpu_op_id, lane, position, start_ns,
    captured.launch_thread_id, captured.launch_position, 0
FROM captured
INNER JOIN simulation.gpu_placement AS placement
    ON captured.gpu_op_id = placement.gpu_op_id
ANTI JOIN moved
    ON captured.variant_id = moved.variant_id AND captured.gpu_op_id = moved.gpu_op_id;
