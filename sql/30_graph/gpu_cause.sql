-- What each GPU op started after, as measured: the last of its launch, the previous work on
-- its stream, and the work on another stream that it waited for.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE TABLE graph.gpu_cause (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `launch`, `stream`, `stream_wait`, `occupancy`, or `none` for the first work of a
    -- stream without a launch in the trace.
    cause,
    -- The GPU work that it started after, unless the cause is its launch.
    cause_gpu_op_id,
    -- [ns] Submission by the launch, or end of the GPU work that it started after.
    cause_ns
) AS
SELECT
    work.gpu_op_id,
    work.run_id,
    work.trace_id,
    CASE
        WHEN
            awaited_end_ns
            >= coalesce(greatest(after_launch_ns, previous_end_ns), awaited_end_ns)
            THEN reason
        -- Without a launch, it can only have waited for the previous work.
        WHEN after_stream_ns >= coalesce(after_launch_ns, after_stream_ns) THEN 'stream'
        WHEN call_id IS NOT NULL THEN 'launch'
        ELSE 'none'
    END AS cause,
    CASE cause
        WHEN 'stream_wait' THEN awaited_gpu_op_id
        WHEN 'occupancy' THEN awaited_gpu_op_id
        WHEN 'stream' THEN previous_gpu_op_id
    END AS cause_gpu_op_id,
    CASE cause
        WHEN 'stream_wait' THEN awaited_end_ns
        WHEN 'occupancy' THEN awaited_end_ns
        WHEN 'stream' THEN previous_end_ns
        WHEN 'launch' THEN launch_start_ns + submit_ns
    END AS cause_ns
FROM graph.stream_position AS work
LEFT JOIN graph.stream_wait USING (gpu_op_id)
INNER JOIN graph.typical_start USING (gpu_op_id);
