-- Delays of every GPU op after what it waits for, pooled over its trace, and the rest of
-- its measured start.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE VIEW prediction.gpu_delay (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] From the start of its launch until it was submitted, as measured.
    submit_ns,
    -- [ns] Delay after its submission.
    launch_delay_ns,
    -- [ns] Delay after the end of the previous work on its stream.
    stream_delay_ns,
    -- GPU work on another stream whose end it waits for: of all in
    -- `prediction.gpu_awaited`, the work that explains its start.
    awaited_gpu_op_id,
    -- [ns] Delay after that.
    wait_delay_ns,
    -- [ns] Part of the measured start without a cause. Work without a launch was queued
    -- before the trace, unless no work of the trace has one.
    unexplained_ns
) AS
SELECT
    work.gpu_op_id,
    work.run_id,
    work.trace_id,
    submit_ns,
    coalesce(after_launch_ns - launch_start_ns - submit_ns, 0),
    CASE
        -- Work that overlaps the previous work (programmatic dependent launch).
        WHEN work.start_ns < previous_end_ns THEN work.start_ns - previous_end_ns
        -- The first work of a stream may follow other work in a scenario.
        ELSE coalesce(after_stream_ns - previous_end_ns, following.median_ns, 0)
    END,
    stream_wait.awaited_gpu_op_id,
    coalesce(waiting.median_ns, 0),
    CASE
        WHEN call_id IS NULL AND launched.trace_id IS NOT NULL THEN 0
        ELSE greatest(
            work.start_ns - greatest(
                launch_limit_ns,
                stream_limit_ns,
                awaited_end_ns + coalesce(waiting.cap_ns, 0)
            ),
            0
        )
    END
FROM graph.stream_position AS work
INNER JOIN graph.typical_start USING (gpu_op_id)
LEFT JOIN graph.stream_wait USING (gpu_op_id)
LEFT JOIN (SELECT DISTINCT trace_id FROM staging.call WHERE kind = 'launch') AS launched
    ON work.trace_id = launched.trace_id
LEFT JOIN graph.typical_delay AS following
    ON
        previous_end_ns IS NULL
        AND work.trace_id = following.trace_id
        AND work.kind = following.kind
        AND following.delay = 'stream'
LEFT JOIN prediction.delay AS waiting
    ON
        work.trace_id = waiting.trace_id
        AND work.kind = waiting.kind
        AND waiting.cause = stream_wait.reason;
