-- Kernels alone, without copies, memsets and other GPU work (`staging.gpu_op` has all).
-- One row per kernel.
-- Key: gpu_op_id.
CREATE VIEW staging.kernel (
    -- The kernel, as a GPU op.
    gpu_op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Name.
    name,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Call that launched it; NULL if that is not in the trace.
    call_id,
    -- Innermost op around the launch on its thread; NULL without one.
    op_id,
    -- Outermost op around the launch that is no user range.
    top_op_id,
    -- Outermost op around the launch, user ranges counted where recorded as ops.
    outermost_op_id,
    -- Number that it shares with its launch.
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
