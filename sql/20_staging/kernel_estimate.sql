-- What kernel models predict for GPU work.
-- One row per GPU op that a model has predicted.
-- Key: gpu_op_id.
CREATE VIEW staging.kernel_estimate (
    -- The GPU op.
    gpu_op_id,
    -- The trace it is from.
    trace_id,
    -- [ns] Predicted duration.
    predicted_ns,
    -- [ns] Lower end of its band.
    low_ns,
    -- [ns] Upper end of its band.
    high_ns,
    -- By which kernels of another harness than the model's may be shorter or longer.
    harness_factor,
    -- Name of the model.
    model,
    -- What the model is of: `alike`, `other_measure`, `other_hardware` or `other_op`.
    likeness,
    -- Whether the shape is of those that it was trained on.
    in_range
) AS
SELECT
    event_id AS gpu_op_id,
    trace_id,
    predicted_ns,
    low_ns,
    high_ns,
    harness_factor,
    model,
    likeness,
    in_range
FROM raw.kernel_estimate;
