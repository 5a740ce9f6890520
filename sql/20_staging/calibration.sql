-- Constants that predicted kernel times are calibrated with: `scale` times what it was,
-- plus `offset_ns`. Only those that made the error of other kernels less.
-- One row per hardware, trace (or none) and basis that was calibrated.
-- Key: hardware, trace_id, basis.
CREATE VIEW staging.calibration (
    -- Row of `prediction.hardware`.
    hardware,
    -- The trace that it is for; NULL: all of the hardware.
    trace_id,
    -- What is calibrated: times of the `roofline`, or those of a `model`.
    basis,
    -- Factor.
    scale,
    -- [ns] What is added.
    offset_ns
) AS
SELECT hardware, trace_id, basis, scale, offset_ns
FROM raw.calibration
WHERE is_applied;
