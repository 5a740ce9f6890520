-- How fast units multiply and add, in the peaks of the hardware (`prediction.hardware`):
-- the sum of these multiples of each. Elements of one byte take half the time of those of
-- two, those of four bits a quarter.
-- One row per unit.
-- Key: unit.
CREATE VIEW prediction.arithmetic_unit (
    -- Units.
    unit,
    -- Multiple of the peak of fp64, outside matrix units.
    fp64_peaks,
    -- Multiple of the peak of GEMMs in fp64.
    fp64_matrix_peaks,
    -- Multiple of the peak of fp32, outside matrix units.
    fp32_peaks,
    -- Multiple of the peak of GEMMs in TF32.
    tf32_peaks,
    -- Multiple of the peak of GEMMs in fp16 and bf16.
    half_peaks
) AS
SELECT
    unit,
    fp64_peaks::DOUBLE,
    fp64_matrix_peaks::DOUBLE,
    fp32_peaks::DOUBLE,
    tf32_peaks::DOUBLE,
    half_peaks::DOUBLE
FROM (VALUES
    ('fp64', 1, 0, 0, 0, 0),
    ('fp64_matrix', 0, 1, 0, 0, 0),
    ('fp32', 0, 0, 1, 0, 0),
    ('tf32', 0, 0, 0, 1, 0),
    ('half', 0, 0, 0, 0, 1),
    ('byte', 0, 0, 0, 0, 2),
    ('fp4', 0, 0, 0, 0, 4)
) AS listed (unit, fp64_peaks, fp64_matrix_peaks, fp32_peaks, tf32_peaks, half_peaks);
