-- Only kernels, without copies, memsets and other GPU work (`staging.gpu_op` has all).
-- One row per kernel.
-- Key: gpu_op_id.
CREATE VIEW staging.kernel (
    -- The kernel, as a GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name.
    name,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Call that launched it; NULL if it is not in the trace.
    call_id,
    -- Innermost op around the launch on its thread; NULL if there is none.
    op_id,
    -- Outermost op around the launch that is not a user range.
    top_op_id,
    -- Outermost op around the launch, including user ranges recorded as ops.
    outermost_op_id,
    -- Correlation number shared with its launch.
    correlation,
    -- External id as recorded: the op's, or in files of 2022-24 the correlation.
    external_id,
    -- Whether it is communication between ranks (NCCL, RCCL).
    is_collective
) AS
SELECT
    gpu_op_id,
    run_id,
    trace_id,
    name,
    device,
    stream,
    start_ns,
    end_ns,
    call_id,
    op_id,
    top_op_id,
    outermost_op_id,
    correlation,
    external_id,
    is_collective
FROM staging.gpu_op
WHERE kind = 'kernel';
