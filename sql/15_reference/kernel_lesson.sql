-- Calibration of kernel times from traces of other databases, by `tracedb kernels calibrate
-- --from`: the time of a shape there, compared with its prediction. A trace is not
-- calibrated on itself, even if it is in both databases.
-- One row per trace there, basis and shape.
-- Key: trace_sha256, basis, shape_key.
CREATE TABLE reference.kernel_lesson (
    -- SHA-256 of the text of that trace.
    trace_sha256 VARCHAR NOT NULL,
    -- Row of `prediction.hardware` that it ran on.
    hardware VARCHAR NOT NULL,
    -- The predictor: the `roofline`, or a `model`.
    basis VARCHAR NOT NULL,
    -- Family.
    family VARCHAR NOT NULL,
    -- Name of the op; for a copy, what it goes through, and its direction.
    op VARCHAR NOT NULL,
    -- Binary logarithm of the predicted time [ns], rounded.
    octave BIGINT NOT NULL,
    -- Digest of family, op, tensors and values.
    shape_key UBIGINT NOT NULL,
    -- Mean logarithm of measured divided by predicted time.
    log_ratio DOUBLE NOT NULL
);
