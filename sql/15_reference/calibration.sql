-- Constants that predicted kernel times are calibrated with, by `tracedb kernels
-- calibrate`: a time is predicted to be `scale` times what it was, plus `offset_ns`.
-- One row per hardware, trace (or none) and basis that was calibrated.
-- Key: hardware, trace_id, basis.
CREATE TABLE reference.calibration (
    -- Row of `prediction.hardware`.
    hardware VARCHAR NOT NULL,
    -- The trace that it was fitted on, and is for; NULL: all of the hardware.
    trace_id BIGINT,
    -- What is calibrated: times of the `roofline`, or those of a `model`.
    basis VARCHAR NOT NULL,
    -- Factor.
    scale DOUBLE NOT NULL,
    -- [ns] What is added.
    offset_ns BIGINT NOT NULL,
    -- Kernels that it was fitted on.
    kernel_count BIGINT NOT NULL,
    -- Other kernels of the same traces, which the errors are of.
    other_count BIGINT NOT NULL,
    -- [1] Geometric mean of their errors before.
    gmae_before_share DOUBLE NOT NULL,
    -- [1] The same after.
    gmae_after_share DOUBLE NOT NULL,
    -- [1] Mean of their errors without signs before.
    mape_before_share DOUBLE NOT NULL,
    -- [1] The same after.
    mape_after_share DOUBLE NOT NULL,
    -- Whether the constants count: the geometric mean became less, the mean no more.
    is_applied BOOLEAN NOT NULL
);
