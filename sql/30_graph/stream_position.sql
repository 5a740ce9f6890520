-- The order of GPU work on its stream, and what it could have started after. The first work
-- of a stream may have been queued behind work from before the trace, which is not
-- recorded. This is assumed if it started more than a millisecond after a launch that had
-- returned by then, no wait on a stream or device had ended before that launch, and no
-- stream had been made to wait for an event of work that still ran, which could also be the
-- cause.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE TABLE graph.stream_position (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- `kernel`, `memcpy`, `memset` or `other`.
    kind,
    -- Position on the stream, from 1.
    position,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- The previous GPU op on the stream.
    previous_gpu_op_id,
    -- [ns] End of the previous GPU op.
    previous_end_ns,
    -- Whether one call launched both, as in a replayed graph.
    continues,
    -- Call that launched it; NULL if it is not in the trace, or is irrelevant because the
    -- work was queued behind work from before the trace.
    call_id,
    -- Host thread of the launch.
    launch_thread_id,
    -- [ns] Start of the launch; of a nested one (`graph.nested_launch`), of the outer call.
    launch_start_ns,
    -- [ns] End of the launch; of a nested one, of the inner call.
    launch_end_ns
) AS
WITH
-- Until when the work runs that had been launched by then.
pending AS (
    SELECT
        work.trace_id,
        coalesce(call.start_ns, 0) AS launched_ns,
        max(work.end_ns) OVER (
            PARTITION BY work.trace_id ORDER BY coalesce(call.start_ns, 0)
        ) AS until_ns
    FROM staging.gpu_op AS work
    LEFT JOIN staging.call AS call USING (call_id)
),

idle AS (
    SELECT call.trace_id, min(end_ns) AS idle_ns
    FROM staging.call AS call
    ASOF LEFT JOIN pending
        ON call.trace_id = pending.trace_id AND call.start_ns >= launched_ns
    WHERE
        (kind = 'wait' AND target IN ('device', 'stream'))
        OR (target = 'stream_wait' AND until_ns > start_ns)
    GROUP BY call.trace_id
),

located AS (
    SELECT
        *,
        row_number() OVER lane AS position,
        lag(gpu_op_id) OVER lane AS previous_gpu_op_id,
        lag(end_ns) OVER lane AS previous_end_ns,
        coalesce(call_id = lag(call_id) OVER lane, false) AS continues
    FROM staging.gpu_op
    WHERE kind <> 'other'
    WINDOW lane AS (
        PARTITION BY trace_id, device, stream ORDER BY start_ns, end_ns, gpu_op_id
    )
)

SELECT
    gpu_op_id,
    located.run_id,
    located.trace_id,
    device,
    stream,
    located.kind,
    position,
    located.start_ns,
    located.end_ns,
    previous_gpu_op_id,
    previous_end_ns,
    continues,
    call.call_id,
    call.thread_id AS launch_thread_id,
    coalesce(nested.start_ns, call.start_ns) AS launch_start_ns,
    coalesce(nested.end_ns, call.end_ns) AS launch_end_ns
FROM located
LEFT JOIN idle USING (trace_id)
LEFT JOIN staging.call AS call
    ON
        located.call_id = call.call_id
        AND NOT (
            position = 1
            AND located.start_ns > greatest(call.start_ns + 1_000_000, call.end_ns)
            AND coalesce(call.start_ns < idle_ns, true)
        )
LEFT JOIN graph.nested_launch AS nested ON call.call_id = nested.call_id;
