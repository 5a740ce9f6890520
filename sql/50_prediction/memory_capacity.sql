-- Memory sizes of GPUs, from their datasheets.
-- One row per device model of `prediction.hardware` with a known size.
-- Key: hardware.
CREATE VIEW prediction.memory_capacity (
    -- Name of the model.
    hardware,
    -- [B] Its memory.
    memory_bytes
) AS
SELECT hardware, (gigabytes * 1e9)::BIGINT
FROM (VALUES
    ('P100', 16), ('V100', 32), ('V100 PCIe', 32), ('T4', 16), ('RTX 2080 Ti', 11),
    ('A100 PCIe', 80), ('A100 80GB', 80), ('A100 40GB', 40), ('A10', 24), ('L40S', 48),
    ('L4', 24), ('H100 PCIe', 80), ('H100', 80), ('H200', 141), ('B200', 180),
    ('B300', 270), ('MI210', 64), ('MI250', 64), ('MI300X', 192), ('A40', 48), ('H20', 96),
    ('H800', 80), ('RTX PRO 6000', 96), ('RTX 6000 Ada', 48)
) AS datasheet (hardware, gigabytes);
