-- What each piece of GPU work started after, as measured: the last to allow it of its
-- launch, the work before it on its stream, and the work of another stream it waited for.
-- One row per piece of GPU work.
-- Key: kernel_id.
CREATE TABLE graph.gpu_cause (
    -- The GPU work.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `launch`, `stream`, `stream_wait`, or `none` for work launched before the trace.
    cause,
    -- The GPU work that it started after, unless the cause is its launch.
    cause_kernel_id,
    -- [ns] Begin of the launch, or end of the GPU work that it started after.
    cause_ns
) AS
SELECT
    work.kernel_id,
    work.run_id,
    work.trace_id,
    CASE
        WHEN
            awaited_end_ns >= coalesce(greatest(
                launch_start_ns + coalesce(launch.median_ns, 0), previous_end_ns
            ), awaited_end_ns)
            THEN 'stream_wait'
        WHEN
            previous_end_ns + coalesce(stream_gap.median_ns, 0)
            >= coalesce(
                launch_start_ns + coalesce(launch.median_ns, 0),
                work.start_ns - coalesce(stream_gap.cap_ns, 0)
            )
            THEN 'stream'
        WHEN launch_id IS NOT NULL THEN 'launch'
        ELSE 'none'
    END AS cause,
    CASE cause
        WHEN 'stream_wait' THEN awaited_kernel_id
        WHEN 'stream' THEN previous_kernel_id
    END AS cause_kernel_id,
    CASE cause
        WHEN 'stream_wait' THEN awaited_end_ns
        WHEN 'stream' THEN previous_end_ns
        WHEN 'launch' THEN launch_start_ns
    END AS cause_ns
FROM graph.stream_position AS work
LEFT JOIN graph.stream_wait USING (kernel_id)
LEFT JOIN graph.usual_delay AS launch
    ON
        work.trace_id = launch.trace_id
        AND work.kind = launch.kind
        AND launch.delay = 'launch'
LEFT JOIN graph.usual_delay AS stream_gap
    ON
        work.trace_id = stream_gap.trace_id
        AND work.kind = stream_gap.kind
        AND stream_gap.delay = 'stream';
