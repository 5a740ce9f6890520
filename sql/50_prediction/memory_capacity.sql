-- Memory sizes of GPUs, from their datasheets, and of their instances. Of those with
-- several sizes, the largest (V100), or the one in the name.
-- One row per device model of `prediction.hardware` with a known size.
-- Key: hardware.
CREATE VIEW prediction.memory_capacity (
    -- Name of the model.
    hardware,
    -- [B] Its memory.
    memory_bytes
) AS
WITH
whole AS (
    SELECT hardware, (gigabytes * 1e9)::BIGINT AS memory_bytes
    FROM (VALUES
        ('P100', 16), ('V100', 32), ('V100 PCIe', 32), ('V100S', 32), ('T4', 16),
        ('RTX 2080 Ti', 11), ('A100 PCIe', 80), ('A100 80GB', 80), ('A100 40GB', 40),
        ('A800 PCIe', 80), ('A800', 80), ('A30', 24), ('A10', 24), ('A10G', 24), ('A40', 48),
        ('RTX A6000', 48), ('RTX 3090', 24), ('L40S', 48), ('L40', 48), ('L20', 48),
        ('L4', 24), ('RTX 6000 Ada', 48), ('RTX 4090', 24), ('H100 PCIe', 80),
        ('H100 NVL', 94), ('H100', 80), ('GH200 144GB', 144), ('GH200', 96),
        ('H200 NVL', 141), ('H200', 141), ('H20', 96), ('H800 PCIe', 80), ('H800', 80),
        ('GB200', 186), ('GB300', 279), ('B200', 180), ('B300', 270),
        ('RTX PRO 6000', 96), ('RTX 5090', 32),
        ('MI100', 32), ('MI210', 64), ('MI250', 64), ('MI300A', 128),
        ('MI300X', 192), ('MI325X', 256), ('MI350X', 288), ('MI355X', 288)
    ) AS datasheet (hardware, gigabytes)
)

SELECT * FROM whole
UNION ALL
SELECT instance, (memory_bytes * memory_share)::BIGINT
FROM whole INNER JOIN prediction.gpu_instance USING (hardware);
