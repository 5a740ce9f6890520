-- GPU work that no model predicts, by the op that launched it (or, without one, by the
-- kernel's name): never silently 0.
-- One row per trace and name.
-- Key: trace_id, name.
CREATE VIEW prediction.unmodelled_op (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name of the op, or of the kernel if no op launched it.
    name,
    -- GPU ops.
    gpu_op_count,
    -- [ns] Time that they took.
    measured_ns,
    -- [1] Share of the time of all GPU work in the trace.
    gpu_time_share
) AS
WITH
work AS (
    SELECT
        gpu_op.run_id,
        gpu_op.trace_id,
        coalesce(op.name, gpu_op.name) AS name,
        gpu_op.end_ns - gpu_op.start_ns AS measured_ns,
        sum(measured_ns) OVER (PARTITION BY gpu_op.trace_id) AS total_ns,
        modelled.gpu_op_id IS NULL AS is_unmodelled
    FROM staging.gpu_op AS gpu_op
    LEFT JOIN staging.op AS op ON gpu_op.op_id = op.op_id
    LEFT JOIN prediction.kernel_time AS modelled ON gpu_op.gpu_op_id = modelled.gpu_op_id
    WHERE gpu_op.kind <> 'other'
)

SELECT
    run_id,
    trace_id,
    name,
    count(*),
    sum(measured_ns)::BIGINT,
    coalesce(sum(measured_ns) / nullif(any_value(total_ns), 0), 0)
FROM work
WHERE is_unmodelled
GROUP BY run_id, trace_id, name;
