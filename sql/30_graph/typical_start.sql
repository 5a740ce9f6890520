-- The typical and the latest start of each GPU op: after its launch, and after the previous
-- work on its stream. A later start has another cause.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE TABLE graph.typical_start (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] From the start of its launch until it was submitted; 0 if that is not in the trace.
    submit_ns,
    -- [ns] Typical start after it was submitted; NULL if that is not in the trace.
    after_launch_ns,
    -- [ns] Latest start explained by its launch.
    launch_limit_ns,
    -- [ns] Typical start after the previous work on its stream; NULL for the first.
    after_stream_ns,
    -- [ns] Latest start explained by the previous work.
    stream_limit_ns
) AS
SELECT
    gpu_op_id,
    work.run_id,
    work.trace_id,
    coalesce(submit_ns, 0),
    launch_start_ns + coalesce(submit_ns, 0) + coalesce(launch.median_ns, 0),
    launch_start_ns + coalesce(submit_ns, 0) + coalesce(launch.cap_ns, 0),
    previous_end_ns + coalesce(stream_gap.median_ns, 0),
    previous_end_ns + coalesce(stream_gap.cap_ns, 0)
FROM graph.stream_position AS work
LEFT JOIN graph.launch_submission USING (call_id)
LEFT JOIN graph.typical_delay AS launch
    ON
        work.trace_id = launch.trace_id
        AND work.kind = launch.kind
        AND launch.delay = 'launch'
LEFT JOIN graph.typical_delay AS stream_gap
    ON
        work.trace_id = stream_gap.trace_id
        AND work.kind = stream_gap.kind
        AND stream_gap.delay = CASE WHEN continues THEN 'graph' ELSE 'stream' END;
