-- The order of GPU work on its stream, and what it could have started after.
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
    -- Call that launched it.
    launch_id,
    -- Host thread of the launch.
    launch_thread_id,
    -- [ns] Begin of the launch.
    launch_start_ns,
    -- [ns] End of the launch.
    launch_end_ns
) AS
SELECT
    kernel_id,
    staging.kernel.run_id,
    staging.kernel.trace_id,
    device,
    stream,
    staging.kernel.kind,
    row_number() OVER lane AS position,
    staging.kernel.start_ns,
    staging.kernel.end_ns,
    lag(kernel_id) OVER lane AS previous_kernel_id,
    lag(staging.kernel.end_ns) OVER lane AS previous_end_ns,
    launch_id,
    staging.launch.thread_id AS launch_thread_id,
    staging.launch.start_ns AS launch_start_ns,
    staging.launch.end_ns AS launch_end_ns
FROM staging.kernel
LEFT JOIN staging.launch USING (launch_id)
WHERE staging.kernel.kind <> 'other'
WINDOW
    lane AS (
        PARTITION BY staging.kernel.trace_id, device, stream
        ORDER BY staging.kernel.start_ns, staging.kernel.end_ns, kernel_id
    );
