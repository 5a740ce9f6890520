-- What was recorded in each trace: where, what, how much, and with which profiler settings?
-- One row per trace.
-- Key: trace_id.
CREATE VIEW question.recording (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Ranks of the job, if the trace states it.
    world_size,
    -- The GPU model that ran work, or, if its own name is not recorded (ROCm may number
    -- devices differently), of the first device that the trace describes; NULL if no GPU ran
    -- work, or no name is recorded.
    gpu,
    -- Devices that ran work.
    device_count,
    -- The profiler: `PyTorch profiler`, or the tool that the file was exported from;
    -- `unknown profiler` if no slice has a category that is read.
    profiler,
    -- The GPU runtime with its version, such as `CUDA 12.4`; NULL if unknown.
    runtime,
    -- Steps, as in `staging.whole_step`.
    step_count,
    -- Number of the first step.
    first_step,
    -- Number of the last step.
    last_step,
    -- [ns] From the first event of a host thread or a device to the last; in a log of
    -- collectives, from the first call.
    duration_ns,
    -- Host threads that ran something.
    thread_count,
    -- CPU operator events, without user ranges.
    op_count,
    -- User ranges: those of `record_function`, of steps, optimizers and data loaders.
    range_count,
    -- Kernels, copies and memsets.
    gpu_op_count,
    -- Other tasks of devices, whose kind the profiler does not tell (MTIA); no figure of
    -- busy and idle time includes them.
    other_task_count,
    -- Collectives, on a GPU, on the CPU or in a log.
    collective_count,
    -- Whether ops have the shapes of their arguments (`record_shapes=True`).
    has_shapes,
    -- Whether calls of Python functions and modules are recorded (`with_stack=True`).
    has_stack,
    -- Whether allocations are recorded (`profile_memory=True`).
    has_memory,
    -- Name of the file.
    file
) AS
WITH
lasting AS (
    SELECT trace_id, start_ns, end_ns FROM overhead.timeline
    UNION ALL
    SELECT trace_id, start_ns, end_ns FROM staging.gpu_op
    UNION ALL
    SELECT trace_id, start_ns, coalesce(end_ns, start_ns) FROM staging.logged_collective
),

extent AS (
    SELECT trace_id, max(end_ns) - min(start_ns) AS duration_ns
    FROM lasting
    GROUP BY trace_id
),

worked AS (
    SELECT
        trace_id,
        any_value(name ORDER BY gpu_op_count = 0, device) AS gpu,
        count(*) FILTER (gpu_op_count > 0) AS device_count
    FROM staging.device
    GROUP BY trace_id
    HAVING device_count > 0
),

step_summary AS (
    SELECT
        trace_id, count(*) AS step_count, min(step) AS first_step, max(step) AS last_step
    FROM staging.whole_step
    GROUP BY trace_id
),

threaded AS (
    SELECT trace_id, count(*) AS thread_count FROM staging.thread GROUP BY trace_id
),

op_summary AS (
    SELECT trace_id, count(*) FILTER (NOT is_annotation) AS op_count
    FROM staging.op
    GROUP BY trace_id
),

ranges AS (
    SELECT trace_id, count(*) AS range_count FROM staging.annotation GROUP BY trace_id
),

ran AS (
    SELECT
        trace_id,
        count(*) FILTER (kind <> 'other') AS gpu_op_count,
        count(*) FILTER (kind = 'other') AS other_task_count
    FROM staging.gpu_op
    GROUP BY trace_id
),

collective_summary AS (
    SELECT trace_id, count(*) AS collective_count
    FROM (
        SELECT trace_id, node_id FROM staging.collective
        UNION
        SELECT trace_id, event_id FROM staging.logged_collective
    )
    GROUP BY trace_id
)

SELECT
    run_id,
    trace.trace_id,
    rank,
    world_size,
    gpu,
    coalesce(device_count, 0),
    profiler,
    runtime,
    coalesce(step_count, 0),
    first_step,
    last_step,
    coalesce(duration_ns, 0)::BIGINT,
    coalesce(thread_count, 0),
    coalesce(op_count, 0),
    coalesce(range_count, 0),
    coalesce(gpu_op_count, 0),
    coalesce(other_task_count, 0),
    coalesce(collective_count, 0),
    has_shapes,
    has_stack,
    has_memory,
    parse_filename(path)
FROM staging.trace AS trace
INNER JOIN staging.recording AS recording USING (trace_id)
LEFT JOIN extent USING (trace_id)
LEFT JOIN worked USING (trace_id)
LEFT JOIN step_summary USING (trace_id)
LEFT JOIN threaded USING (trace_id)
LEFT JOIN op_summary USING (trace_id)
LEFT JOIN ranges USING (trace_id)
LEFT JOIN ran USING (trace_id)
LEFT JOIN collective_summary USING (trace_id)
ORDER BY run_id, rank, trace.trace_id;
