-- The order of GPU work on its stream, and what it could have started after. The first
-- work of a stream may have been queued behind work from before the trace, which is not
-- recorded: it is taken for such if it began more than a millisecond after a launch that
-- had returned by then, no wait for a stream or device had ended before that launch, and
-- no stream had been made to wait for an event, which it may be waiting for.
-- One row per piece of GPU work.
-- Key: kernel_id.
CREATE TABLE graph.stream_position (
    -- The GPU work.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- `kernel`, `memcpy`, `memset` or `other`.
    kind,
    -- Place on the stream, from 1.
    position,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns,
    -- The piece of GPU work before it on the stream.
    previous_kernel_id,
    -- [ns] Its end.
    previous_end_ns,
    -- Call that launched it; NULL where that is not in the trace, or tells nothing, since
    -- the work was queued behind work from before the trace.
    launch_id,
    -- Host thread of the launch.
    launch_thread_id,
    -- [ns] Begin of the launch.
    launch_start_ns,
    -- [ns] End of the launch.
    launch_end_ns
) AS
WITH
idle AS (
    SELECT trace_id, min(end_ns) AS idle_ns
    FROM staging.launch
    WHERE
        (kind = 'wait' AND target IN ('device', 'stream'))
        OR name LIKE '%StreamWaitEvent%'
    GROUP BY trace_id
),

placed AS (
    SELECT
        *,
        row_number() OVER lane AS position,
        lag(kernel_id) OVER lane AS previous_kernel_id,
        lag(end_ns) OVER lane AS previous_end_ns
    FROM staging.kernel
    WHERE kind <> 'other'
    WINDOW lane AS (
        PARTITION BY trace_id, device, stream ORDER BY start_ns, end_ns, kernel_id
    )
)

SELECT
    kernel_id,
    placed.run_id,
    placed.trace_id,
    device,
    stream,
    placed.kind,
    position,
    placed.start_ns,
    placed.end_ns,
    previous_kernel_id,
    previous_end_ns,
    call.launch_id,
    call.thread_id AS launch_thread_id,
    call.start_ns AS launch_start_ns,
    call.end_ns AS launch_end_ns
FROM placed
LEFT JOIN idle USING (trace_id)
LEFT JOIN staging.launch AS call
    ON
        placed.launch_id = call.launch_id
        AND NOT (
            position = 1
            AND placed.start_ns > greatest(call.start_ns + 1_000_000, call.end_ns)
            AND coalesce(call.start_ns < idle_ns, true)
        );
