-- Best rates measured on devices: the 99th percentile over large shapes. bf16 GEMMs are from
-- aiconfigurator's data, fp32 GEMMs and additions from NeuSight's.
-- One row per device model that was measured.
-- Key: hardware.
CREATE TABLE prediction.reached_rate (
    -- Device model, as in `prediction.hardware`.
    hardware,
    -- [FLOP/s] fp32 GEMMs; NULL if not measured.
    fp32_flops_per_second,
    -- [FLOP/s] bf16 GEMMs; NULL if not measured.
    half_flops_per_second,
    -- [B/s] Additions in memory; NULL if not measured.
    dram_bytes_per_second
) AS
SELECT hardware, fp32 * 1e12, half * 1e12, dram * 1e9
FROM (VALUES
    ('P100', 7.95, NULL, 551),
    ('V100', 13.0, NULL, 818),
    ('T4', 3.74, NULL, 243),
    ('A100 40GB', 16.6, 267, 1325),
    ('L40S', NULL, 273, NULL),
    ('H100', NULL, 887, NULL),
    ('B200', NULL, 1834, NULL)
) AS measured (hardware, fp32, half, dram);
