-- How fast units multiply and add, in the peaks of the hardware (`prediction.hardware`):
-- the sum of these multiples of each. Elements of one byte take half the time of those of
-- two. fp64 has half the rate of fp32, as on P100, V100 and GPUs of that line; others have
-- less.
-- One row per unit.
-- Key: unit.
CREATE VIEW prediction.arithmetic_unit (
    -- Units.
    unit,
    -- Multiple of the peak of fp32, outside matrix units.
    fp32_peaks,
    -- Multiple of the peak of GEMMs in TF32.
    tf32_peaks,
    -- Multiple of the peak of GEMMs in fp16 and bf16.
    half_peaks
) AS
SELECT unit, fp32_peaks::DOUBLE, tf32_peaks::DOUBLE, half_peaks::DOUBLE
FROM (VALUES
    ('fp64', 0.5, 0, 0),
    ('fp32', 1, 0, 0),
    ('tf32', 0, 1, 0),
    ('half', 0, 0, 1),
    ('byte', 0, 0, 2)
) AS listed (unit, fp32_peaks, tf32_peaks, half_peaks);
