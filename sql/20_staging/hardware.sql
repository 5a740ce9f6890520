-- Devices that the user added. What was not given is as of a GPU without matrix units: TF32
-- and half as fp32, cache three times as fast as the memory, PCIe 4.0, no NVLink.
-- One row per model of a device.
-- Key: hardware.
CREATE VIEW staging.hardware (
    -- Name of the model.
    hardware,
    -- Number of the row, from 1.
    ordinal,
    -- Regular expression to find in the name of a device, whatever its case.
    name_pattern,
    -- `gpu` or `cpu`.
    kind,
    -- [FLOP/s] Of fp32 arithmetic, outside matrix units.
    peak_fp32_flops_per_second,
    -- [FLOP/s] Of fp32 products with TF32 inputs.
    peak_tf32_flops_per_second,
    -- [FLOP/s] Of fp16 and bf16 matrix products.
    peak_half_flops_per_second,
    -- [1] What the best products reach of the matrix peaks, relative to NVIDIA's GPUs.
    matrix_share,
    -- [B/s] Of the device's memory.
    dram_bytes_per_second,
    -- [B] Level-2 cache.
    l2_bytes,
    -- [B/s] Of that cache.
    l2_bytes_per_second,
    -- Streaming multiprocessors, compute units or cores.
    sm_count,
    -- [1/s] Boost clock.
    clocks_per_second,
    -- [B/s] Between pinned host memory and the device.
    pcie_bytes_per_second,
    -- [B/s] Between pageable host memory and the device.
    pageable_bytes_per_second,
    -- [B/s] To all devices of the node together.
    nvlink_bytes_per_second,
    -- [ns] Duration of a kernel that has next to nothing to do.
    floor_ns,
    -- [FLOP/s] The best that was measured of fp32 products.
    reached_fp32_flops_per_second,
    -- [FLOP/s] The best that was measured of bf16 products.
    reached_half_flops_per_second,
    -- [B/s] The best that was measured of the memory.
    reached_dram_bytes_per_second
) AS
SELECT
    hardware,
    ordinal,
    name_pattern,
    kind,
    peak_fp32_flops_per_second,
    coalesce(peak_tf32_flops_per_second, peak_fp32_flops_per_second),
    coalesce(peak_half_flops_per_second, peak_fp32_flops_per_second),
    coalesce(matrix_share, 1),
    dram_bytes_per_second,
    l2_bytes,
    coalesce(l2_bytes_per_second, 3 * dram_bytes_per_second),
    sm_count,
    clocks_per_second,
    coalesce(pcie_bytes_per_second, 31.5e9),
    coalesce(pageable_bytes_per_second, 10e9),
    coalesce(nvlink_bytes_per_second, pcie_bytes_per_second, 31.5e9),
    coalesce(floor_ns, 2000),
    reached_fp32_flops_per_second,
    reached_half_flops_per_second,
    reached_dram_bytes_per_second
FROM raw.hardware;
