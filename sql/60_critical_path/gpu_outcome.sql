-- When each GPU op starts and ends, measured and simulated, on one clock, and what it
-- started after.
-- One row per variant (0 is measured) and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE VIEW critical_path.gpu_outcome (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- The trace.
    trace_id,
    -- Device.
    device,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns,
    -- What it started after, as in `graph.gpu_cause`.
    cause,
    -- [ns] From the start of its launch until it was submitted.
    submit_ns,
    -- [ns] Part of the start without a cause; 0 in the simulation.
    unexplained_ns
) AS
WITH
-- When work on other streams lets work start, as simulated.
ready AS (
    SELECT
        time.variant_id,
        awaited.gpu_op_id,
        max(time.end_ns + awaited.delay_ns) AS ready_ns
    FROM (
        SELECT variant_id, gpu_op_id, awaited_gpu_op_id, delay_ns
        FROM prediction.variant_wait
        UNION ALL
        SELECT variant_id, gpu_op_id, awaited_gpu_op_id, delay_ns
        FROM prediction.added_wait
    ) AS awaited
    INNER JOIN simulation.gpu_work_time AS time
        ON
            awaited.variant_id = time.variant_id
            AND awaited.awaited_gpu_op_id = time.gpu_op_id
    GROUP BY time.variant_id, awaited.gpu_op_id
)

SELECT
    0, work.trace_id, device, work.gpu_op_id, work.start_ns - origin_ns,
    work.end_ns - origin_ns, cause, submit_ns, unexplained_ns
FROM graph.stream_position AS work
INNER JOIN simulation.origin AS origin ON work.trace_id = origin.trace_id
INNER JOIN graph.gpu_cause AS gpu_cause ON work.gpu_op_id = gpu_cause.gpu_op_id
INNER JOIN prediction.gpu_delay AS delay ON work.gpu_op_id = delay.gpu_op_id
UNION ALL
SELECT
    time.variant_id,
    time.trace_id,
    work.device,
    time.gpu_op_id,
    time.start_ns,
    time.end_ns,
    CASE
        WHEN launched.start_ns + launch_delay_ns >= time.start_ns THEN 'launch'
        WHEN gpu.awaited_gpu_op_id IS NOT NULL AND ready_ns + kept_ns >= time.start_ns
            THEN 'stream_wait'
        WHEN previous_gpu_op_id IS NOT NULL THEN 'stream'
        ELSE 'none'
    END,
    submit_ns,
    0
FROM simulation.gpu_work_time AS time
INNER JOIN prediction.gpu_time AS gpu
    ON time.variant_id = gpu.variant_id AND time.gpu_op_id = gpu.gpu_op_id
INNER JOIN graph.stream_position AS work ON time.gpu_op_id = work.gpu_op_id
INNER JOIN simulation.gpu_placement AS placement ON time.gpu_op_id = placement.gpu_op_id
LEFT JOIN simulation.host_span_time AS launched
    ON
        time.variant_id = launched.variant_id
        AND placement.launch_thread_id = launched.thread_id
        AND placement.launch_position = launched.position
LEFT JOIN ready
    ON time.variant_id = ready.variant_id AND time.gpu_op_id = ready.gpu_op_id;
