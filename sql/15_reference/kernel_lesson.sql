-- What traces of other databases teach of kernel times, by `tracedb kernels calibrate
-- --from`: how long a shape took there, against what was predicted of it. A trace does not
-- learn from itself, even where it is in both databases.
-- One row per trace there, basis and shape.
-- Key: trace_sha256, basis, shape_key.
CREATE TABLE reference.kernel_lesson (
    -- SHA-256 of the text of the trace that it is from.
    trace_sha256 VARCHAR NOT NULL,
    -- Row of `prediction.hardware` that it ran on.
    hardware VARCHAR NOT NULL,
    -- What was predicted with: the `roofline`, or a `model`.
    basis VARCHAR NOT NULL,
    -- Family.
    family VARCHAR NOT NULL,
    -- Name of the op; of a copy what it goes through, and which way.
    op VARCHAR NOT NULL,
    -- Binary logarithm of the predicted time [ns], rounded.
    octave BIGINT NOT NULL,
    -- Digest of family, op, tensors and values.
    shape_key UBIGINT NOT NULL,
    -- Mean logarithm of measured over predicted time.
    log_ratio DOUBLE NOT NULL
);
