-- GPU models that their properties identify, for traces that do not name their devices (as
-- ROCm in containers does not). Models that differ in nothing that is recorded are missing:
-- L40S and RTX 6000 Ada, A40 and RTX A6000, MI210 and MI250. Variants with other links or
-- clocks, such as A800 and H800, count as the usual model.
-- One row per GPU model.
-- Key: model.
CREATE VIEW staging.gpu_signature (
    -- The model, as `prediction.hardware` finds it.
    model,
    -- Compute capability.
    capability,
    -- Streaming multiprocessors, or compute units.
    sm_count,
    -- Threads per warp: 64 for AMD's.
    warp_size,
    -- [B] The memory has at least this size.
    least_memory_bytes,
    -- [B] And at most this one.
    most_memory_bytes
) AS
SELECT
    model,
    capability,
    sm_count::BIGINT,
    warp_size::BIGINT,
    (least * 1e9)::BIGINT,
    (most * 1e9)::BIGINT
FROM (VALUES
    ('Tesla P100', '6.0', 56, 32, 11, 18),
    ('Tesla V100', '7.0', 80, 32, 15, 36),
    ('Tesla T4', '7.5', 40, 32, 14, 17.5),
    ('NVIDIA GeForce RTX 2080 Ti', '7.5', 68, 32, 10, 12.5),
    ('NVIDIA A100 40GB', '8.0', 108, 32, 38, 44),
    ('NVIDIA A100 80GB', '8.0', 108, 32, 78, 88),
    ('NVIDIA A30', '8.0', 56, 32, 22, 27),
    ('NVIDIA A10G', '8.6', 80, 32, 21, 27),
    ('NVIDIA A10', '8.6', 72, 32, 21, 27),
    ('NVIDIA GeForce RTX 3090', '8.6', 82, 32, 23, 27),
    ('NVIDIA L4', '8.9', 58, 32, 21, 27),
    ('NVIDIA L20', '8.9', 92, 32, 44, 53),
    ('NVIDIA GeForce RTX 4090', '8.9', 128, 32, 23, 27),
    ('NVIDIA H100 PCIe', '9.0', 114, 32, 78, 88),
    ('NVIDIA H100', '9.0', 132, 32, 78, 88),
    ('NVIDIA H200', '9.0', 132, 32, 138, 155),
    ('NVIDIA H20', '9.0', 78, 32, 92, 155),
    ('NVIDIA B200', '10.0', 148, 32, 175, 200),
    ('NVIDIA GB200', '10.0', 152, 32, 180, 205),
    ('NVIDIA B300', '10.3', 148, 32, 260, 315),
    ('NVIDIA GB300', '10.3', 152, 32, 260, 315),
    ('NVIDIA GeForce RTX 5090', '12.0', 170, 32, 31, 36),
    ('NVIDIA RTX PRO 6000', '12.0', 188, 32, 92, 106),
    ('AMD Instinct MI100', '9.0', 120, 64, 31, 36),
    ('AMD Instinct MI250X', '9.0', 110, 64, 62, 70),
    ('AMD Instinct MI300A', '9.4', 228, 64, 120, 140),
    ('AMD Instinct MI300X', '9.4', 304, 64, 190, 210),
    ('AMD Instinct MI325X', '9.4', 304, 64, 250, 280)
) AS listed (model, capability, sm_count, warp_size, least, most);
