-- What kernel models predict for GPU work: those that come with tracedb at ingest, others by
-- `tracedb kernels apply`. Each kernel has its part of the time of the problem
-- (`prediction.op_problem`) that it solves.
-- One row per kernel, copy or memset that a model has predicted.
-- Key: gpu_op_id.
CREATE TABLE reference.kernel_estimate (
    -- The GPU op.
    gpu_op_id BIGINT NOT NULL,
    -- The trace it is from.
    trace_id BIGINT NOT NULL,
    -- [ns] Predicted duration.
    predicted_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    high_ns BIGINT NOT NULL,
    -- By which four of five kernels of another harness than the model's, as a trace is, may
    -- be shorter or longer than predicted, as harnesses of the family and type are apart;
    -- 1 where no two harnesses were compared.
    harness_factor DOUBLE NOT NULL,
    -- Name of the model.
    model VARCHAR NOT NULL,
    -- What the model is of: `alike` (such an op on such hardware), `transferred` (of the
    -- nearest GPUs of the vendor that were measured, by their rooflines: held-out GPUs say that
    -- it is nearer than the roofline), `other_measure` (as alike, measured with its launch),
    -- `other_hardware` (as transferred, but nothing says that it is nearer), `other_op` or
    -- `other_topology` (of ranks within a node, not over nodes). The first two serve.
    likeness VARCHAR NOT NULL,
    -- Whether the shape is of those that it was trained on.
    in_range BOOLEAN NOT NULL
);
