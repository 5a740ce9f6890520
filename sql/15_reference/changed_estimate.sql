-- What the roofline and the kernel models that come with tracedb predict of GPU work as it
-- was recorded and as scenarios put it elsewhere; filled beside a database, for one
-- prediction.
-- One row per change and GPU op of known work.
-- Key: change, gpu_op_id.
CREATE TABLE reference.changed_estimate (
    -- What is changed, as in `prediction.work_change`; empty: nothing.
    change VARCHAR NOT NULL,
    -- The GPU op.
    gpu_op_id BIGINT NOT NULL,
    -- The trace it is from.
    trace_id BIGINT NOT NULL,
    -- [ns] Duration by the roofline.
    roofline_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    roofline_low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    roofline_high_ns BIGINT NOT NULL,
    -- Whether shape, type and hardware are known rather than assumed.
    roofline_in_range BOOLEAN NOT NULL,
    -- [ns] Duration by models of such an op on such hardware; NULL where there are none.
    model_ns BIGINT,
    -- [ns] Lower end of its band.
    model_low_ns BIGINT,
    -- [ns] Upper end of its band.
    model_high_ns BIGINT,
    -- Whether the shape is of those that the models were trained on.
    model_in_range BOOLEAN,
    -- Name of the model.
    model VARCHAR
);
