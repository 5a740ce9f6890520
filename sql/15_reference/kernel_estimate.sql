-- Predictions of kernel models for GPU work: shipped models at ingest, others by `tracedb
-- kernels apply`. Each kernel has its share of the time of its problem
-- (`prediction.op_problem`).
-- One row per kernel, copy or memset that a model has predicted.
-- Key: gpu_op_id.
CREATE TABLE reference.kernel_estimate (
    -- The GPU op.
    gpu_op_id BIGINT NOT NULL,
    -- The trace.
    trace_id BIGINT NOT NULL,
    -- [ns] Predicted duration.
    predicted_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    high_ns BIGINT NOT NULL,
    -- Factor by which four of five kernels measured by a harness other than the model's,
    -- such as a trace, may be longer or shorter than predicted, from differences between
    -- harnesses of the family and type at this predicted time, which are larger for short
    -- kernels; 1 if no two harnesses were compared. Out of range, where none were compared,
    -- the model's own band joins it as an independent error.
    harness_factor DOUBLE NOT NULL,
    -- Name of the model.
    model VARCHAR NOT NULL,
    -- What the model is for: `alike` (this op on this hardware), `transferred` (from the
    -- vendor's nearest measured GPUs, by their rooflines; held-out GPUs show that it is
    -- closer than the roofline), `other_measure` (like alike, measured with its launch),
    -- `other_hardware` (like transferred, but nothing shows that it is closer), `other_op`
    -- or `other_topology` (for ranks within a node, not across nodes). Only the first two
    -- are used.
    likeness VARCHAR NOT NULL,
    -- Whether the shape is within its training range.
    in_range BOOLEAN NOT NULL
);
