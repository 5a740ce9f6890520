-- Who makes a GPU, and of which generation it is. Kernels are alike within a generation, and
-- less so within a vendor: a GPU that was not measured is predicted by its relatives' models.
-- One row per model of a GPU that is listed.
-- Key: hardware.
CREATE VIEW prediction.gpu_generation (
    -- Who makes it.
    vendor,
    -- Name of the generation, as the vendor has it.
    generation,
    -- Name of the model, as in `prediction.hardware`.
    hardware
) AS
SELECT vendor, generation, unnest(members)
FROM (VALUES
    ('NVIDIA', 'Pascal', ['P100']),
    ('NVIDIA', 'Volta', ['V100', 'V100 PCIe']),
    ('NVIDIA', 'Turing', ['T4', 'RTX 2080 Ti']),
    ('NVIDIA', 'Ampere', ['A100 PCIe', 'A100 80GB', 'A100 40GB', 'A10', 'A40']),
    ('NVIDIA', 'Ada', ['L40S', 'L4']),
    ('NVIDIA', 'Hopper', ['H100 PCIe', 'H100', 'H200', 'H20', 'H800']),
    ('NVIDIA', 'Blackwell', ['B200', 'B300']),
    ('AMD', 'CDNA 2', ['MI210', 'MI250']),
    ('AMD', 'CDNA 3', ['MI300X'])
) AS made (vendor, generation, members);
