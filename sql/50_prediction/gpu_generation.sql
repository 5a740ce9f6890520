-- Vendor and generation of a GPU. Kernels are similar within a generation, and less so
-- within a vendor: the models of related GPUs predict a GPU that was not measured.
-- One row per listed GPU model.
-- Key: hardware.
CREATE TABLE prediction.gpu_generation (
    -- The vendor.
    vendor,
    -- The vendor's name for the generation.
    generation,
    -- Name of the model, as in `prediction.hardware`.
    hardware
) AS
SELECT vendor, generation, unnest(members)
FROM (VALUES
    ('NVIDIA', 'Pascal', ['P100']),
    ('NVIDIA', 'Volta', ['V100', 'V100 PCIe', 'V100S']),
    ('NVIDIA', 'Turing', ['T4', 'RTX 2080 Ti']),
    ('NVIDIA', 'Ampere', [
        'A100 PCIe', 'A100 80GB', 'A100 40GB', 'A800 PCIe', 'A800', 'A30', 'A10',
        'A10G', 'A40', 'RTX A6000', 'RTX 3090'
    ]),
    ('NVIDIA', 'Ada', ['L40S', 'L40', 'L20', 'L4', 'RTX 6000 Ada', 'RTX 4090']),
    ('NVIDIA', 'Hopper', [
        'H100 PCIe', 'H100 NVL', 'H100', 'GH200 144GB', 'GH200', 'H200 NVL', 'H200', 'H20',
        'H800 PCIe', 'H800'
    ]),
    ('NVIDIA', 'Blackwell', ['GB200', 'GB300', 'B200', 'B300', 'RTX PRO 6000', 'RTX 5090']),
    ('AMD', 'CDNA', ['MI100']),
    ('AMD', 'CDNA 2', ['MI210', 'MI250']),
    ('AMD', 'CDNA 3', ['MI300A', 'MI300X', 'MI325X']),
    ('AMD', 'CDNA 4', ['MI350X', 'MI355X'])
) AS made (vendor, generation, members);
