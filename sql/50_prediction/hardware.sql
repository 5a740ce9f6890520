-- Peak rates of devices: those that tracedb knows (`prediction.listed_hardware`), and the
-- user's (`tracedb kernels hardware --add`), which come before all others and replace those
-- of the same name; their missing values are those of a GPU without matrix units: TF32 and
-- half as fp32, fp64 half as fast, cache three times as fast as the memory, PCIe 4.0, no
-- NVLink, and a network port of 100 Gb/s for four.
-- One row per device model.
-- Key: hardware.
CREATE VIEW prediction.hardware (
    -- Name of the model.
    hardware,
    -- A device's model is the row with the lowest ordinal whose pattern is in its name.
    ordinal,
    -- Regular expression to find in the name of a device, case-insensitive.
    name_pattern,
    -- Whether it is the row for unlisted GPUs.
    is_fallback,
    -- `gpu` or `cpu`.
    kind,
    -- Whether it represents many models, so that its figures are exact for none of them.
    is_generic,
    -- Source of the figures: `datasheet`, `generic` or `user`.
    source,
    -- Vendor; NULL if the generation is unknown.
    vendor,
    -- The vendor's name for its generation; NULL if unknown.
    generation,
    -- [FLOP/s] fp64 arithmetic outside matrix units.
    peak_fp64_flops_per_second,
    -- [FLOP/s] fp64 GEMMs; same as the above if there is no such unit.
    peak_fp64_matrix_flops_per_second,
    -- [FLOP/s] fp32 arithmetic outside matrix units.
    peak_fp32_flops_per_second,
    -- [FLOP/s] fp32 GEMMs with TF32 inputs; same as fp32 if there is no such unit.
    peak_tf32_flops_per_second,
    -- [FLOP/s] fp16 and bf16 GEMMs.
    peak_half_flops_per_second,
    -- [1] Share of the matrix peaks that the best GEMMs reach, relative to NVIDIA's GPUs.
    matrix_share,
    -- [B/s] Bandwidth of the GPU's memory.
    dram_bytes_per_second,
    -- [B] Level-2 cache.
    l2_bytes,
    -- [B/s] Bandwidth of that cache.
    l2_bytes_per_second,
    -- Streaming multiprocessors, or compute units.
    sm_count,
    -- [1/s] Boost clock.
    clocks_per_second,
    -- [B/s] Between pinned host memory and the GPU.
    pcie_bytes_per_second,
    -- [B/s] Between pageable host memory and the GPU: limited by copies on the host.
    pageable_bytes_per_second,
    -- [B/s] To all GPUs together that it is linked with; PCIe if there is no link.
    nvlink_bytes_per_second,
    -- [B/s] Rate of its messages to other nodes while all GPUs of its node send.
    network_bytes_per_second,
    -- [ns] Latency of a step from node to node.
    network_latency_ns,
    -- GPUs per node.
    devices_per_node,
    -- GPUs that a bridge joins; collectives of more go over PCIe. NULL if there is no bridge.
    linked_devices,
    -- [ns] Duration of a kernel with next to nothing to do.
    floor_ns,
    -- [FLOP/s] Best measured rate of fp32 GEMMs; NULL if not measured.
    reached_fp32_flops_per_second,
    -- [FLOP/s] Best measured rate of bf16 GEMMs; NULL if not measured.
    reached_half_flops_per_second,
    -- [B/s] Best measured rate of additions in memory; NULL if not measured.
    reached_dram_bytes_per_second
) AS
SELECT *
FROM prediction.listed_hardware
WHERE hardware NOT IN (SELECT hardware FROM reference.hardware)
UNION ALL
SELECT
    hardware,
    ordinal - 1_000_000,
    name_pattern,
    false,
    kind,
    false,
    'user',
    (SELECT any_value(vendor) FROM prediction.gpu_generation WHERE generation = added.generation),
    added.generation,
    coalesce(peak_fp64_flops_per_second, peak_fp32_flops_per_second / 2),
    coalesce(
        peak_fp64_matrix_flops_per_second, peak_fp64_flops_per_second,
        peak_fp32_flops_per_second / 2
    ),
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
    coalesce(pageable_bytes_per_second, 7.7e9),
    coalesce(nvlink_bytes_per_second, pcie_bytes_per_second, 31.5e9),
    coalesce(network_bytes_per_second, 0.9 * 100e9 / 8 / 4),
    coalesce(network_latency_ns, 5000),
    coalesce(devices_per_node, 8),
    linked_devices,
    coalesce(floor_ns, 2000),
    reached_fp32_flops_per_second,
    reached_half_flops_per_second,
    reached_dram_bytes_per_second
FROM reference.hardware AS added
ORDER BY ordinal;
