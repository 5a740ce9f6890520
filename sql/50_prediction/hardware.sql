-- Peak rates of devices, from their datasheets (`prediction.datasheet`), and the best
-- measured rates; NVLink and PCIe count one direction. The last row is used for every GPU
-- that no other row names: it is the V100's, because files that name no GPU are mostly from
-- its time. Rows added by the user (`tracedb kernels hardware --add`) come before all
-- others, and replace those of the same name; missing values are those of a GPU without
-- matrix units: TF32 and half as fp32, fp64 half as fast, cache three times as fast as the
-- memory, PCIe 4.0, no NVLink, and a network port of 100 Gb/s for four.
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
-- Pageable: 6.1 GB/s over the 0.79 of `kernel_efficiency`, median of Lin et al.'s V100 and
-- A100 (8.1) and of five hosts of traces (4.4 to 9.1). Matrix share: AMD gives 708 of
-- MI300X's 1307 TFLOP/s at most, 0.54; NVIDIA's GPUs reach 0.80 in long bf16 products (median
-- of aiconfigurator's data); CDNA 4 is assumed to be as CDNA 3. Network: nine tenths of the
-- ports. A step takes 5 us, as in NCCL's tuning of trees for short messages (`tuning.cc`,
-- NET, LL).
WITH
listed AS (
    SELECT
        hardware,
        ordinal,
        name_pattern,
        name_pattern = '' AS is_fallback,
        CASE WHEN hardware = 'CPU' THEN 'cpu' ELSE 'gpu' END AS kind,
        ordinal >= 98 AS is_generic,
        CASE WHEN is_generic THEN 'generic' ELSE 'datasheet' END AS source,
        made.vendor, made.generation,
        fp64 * 1e12 AS fp64, fp64_matrix * 1e12 AS fp64_matrix,
        fp32 * 1e12 AS fp32, tf32 * 1e12 AS tf32, half * 1e12 AS half,
        CASE
            WHEN made.generation IN ('CDNA 3', 'CDNA 4') THEN 0.68 ELSE 1
        END::DOUBLE AS matrix_share,
        dram * 1e9 AS dram,
        (l2 * 1048576)::BIGINT AS l2,
        l2_speed * 1e9 AS l2_speed,
        sm_count,
        clock * 1e9 AS clock,
        pcie * 1e9 AS pcie,
        7.7e9::DOUBLE AS pageable,
        nvlink * 1e9 AS nvlink,
        0.9 * network / 8 * 1e9 AS network,
        5000::BIGINT AS latency_ns,
        devices_per_node, linked_devices,
        floor_ns
    FROM prediction.datasheet
    INNER JOIN prediction.gpu_node USING (hardware)
    LEFT JOIN prediction.gpu_generation AS made USING (hardware)
),

-- Instances come before the GPUs that are divided, and have no links to others.
divided AS (
    SELECT
        listed.* REPLACE (
            instance AS hardware,
            ordinal - 100 * slices AS ordinal,
            concat(name_pattern, '.*MIG ', slices, 'g\b') AS name_pattern,
            fp64 * compute_share AS fp64, fp64_matrix * compute_share AS fp64_matrix,
            fp32 * compute_share AS fp32, tf32 * compute_share AS tf32,
            half * compute_share AS half, dram * memory_share AS dram,
            (l2 * memory_share)::BIGINT AS l2,
            l2_speed * memory_share AS l2_speed,
            (sm_count * compute_share)::BIGINT AS sm_count,
            pcie AS nvlink
        )
    FROM listed
    INNER JOIN prediction.gpu_instance USING (hardware)
),

model AS (
    SELECT * FROM divided
    UNION ALL
    SELECT * FROM listed
)

SELECT model.*, reached.* EXCLUDE (hardware)
FROM model
LEFT JOIN prediction.reached_rate AS reached USING (hardware)
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
