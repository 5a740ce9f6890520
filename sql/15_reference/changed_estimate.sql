-- Predictions of the roofline and of shipped kernel models for GPU work, as recorded and as
-- moved by scenarios; filled in a side database, for one prediction.
-- One row per change and GPU op of known work.
-- Key: change, gpu_op_id.
CREATE TABLE reference.changed_estimate (
    -- The change, as in `prediction.work_change`; empty: none.
    change VARCHAR NOT NULL,
    -- The GPU op.
    gpu_op_id BIGINT NOT NULL,
    -- The trace.
    trace_id BIGINT NOT NULL,
    -- [ns] Duration by the roofline.
    roofline_ns BIGINT NOT NULL,
    -- Whether shape, type and hardware are known rather than assumed.
    roofline_in_range BOOLEAN NOT NULL,
    -- [ns] Duration by models for this op on this hardware; NULL if there are none.
    model_ns BIGINT,
    -- [ns] Lower end of its band.
    model_low_ns BIGINT,
    -- [ns] Upper end of its band.
    model_high_ns BIGINT,
    -- Whether the shape is within the models' training range.
    model_in_range BOOLEAN,
    -- Name of the model.
    model VARCHAR
);
