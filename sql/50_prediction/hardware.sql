-- Peak rates of devices, from their datasheets (dense rates, no sparsity), and the best
-- measured rates; NVLink and PCIe count one direction. The last row is used for every GPU
-- that no other row names: it is the V100's, because files that name no GPU are mostly from
-- its time. Rows added by the user (`tracedb kernels hardware --add`) come before all
-- others, and replace those of the same name; missing values are those of a GPU without
-- matrix units: TF32 and half as fp32, cache three times as fast as the memory, PCIe 4.0,
-- no NVLink, and a network port of 100 Gb/s for four.
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
    -- [B/s] To all GPUs of the node together; PCIe if there is no link.
    nvlink_bytes_per_second,
    -- [B/s] Rate of its messages to other nodes while all GPUs of its node send.
    network_bytes_per_second,
    -- [ns] Latency of a step from node to node.
    network_latency_ns,
    -- GPUs per node.
    devices_per_node,
    -- [ns] Duration of a kernel with next to nothing to do.
    floor_ns,
    -- [FLOP/s] Best measured rate of fp32 GEMMs; NULL if not measured.
    reached_fp32_flops_per_second,
    -- [FLOP/s] Best measured rate of bf16 GEMMs; NULL if not measured.
    reached_half_flops_per_second,
    -- [B/s] Best measured rate of additions in memory; NULL if not measured.
    reached_dram_bytes_per_second
) AS
-- Peaks, memory, links: NVIDIA's datasheets of P100, V100 (its PCIe card has no NVLink), T4,
-- A10, A40, A100, L4, L40S, H100, H200, HGX B200 and B300, RTX 6000 Ada, RTX 2080 Ti (Turing
-- whitepaper); AMD's of MI210, MI250X (half: a device is one of two dies) and MI300X. H20 and
-- H800 have no datasheet: vendors' figures, H100's cache. RTX PRO 6000: its Server Edition at
-- the 2.43 GHz of aiconfigurator's system file. Cache bandwidth: measured by Lin et al. for
-- P100, V100 and A100 (HW_PARAMS), else 3 times the memory's, 2 times from H100 on
-- (chipsandcheese.com). Pageable: 6.1 GB/s over the 0.79 of `kernel_efficiency`,
-- median of Lin et al.'s V100 and A100 (8.1) and of five hosts of traces (4.4 to 9.1). Matrix share: AMD gives 708 of MI300X's 1307 TFLOP/s at most, 0.54;
-- NVIDIA's GPUs reach 0.80 in long bf16 products (median of aiconfigurator's data). Floor:
-- median of the smallest elementwise kernels in public traces of ns resolution (V100 2.1,
-- A100 2.2, H100 1.7, MI300X 2.3 us) and the shortest GEMMs of aiconfigurator's data (B200
-- 1.8, L40S 1.7 us); the others are guessed from their neighbors. CPU: about a server of 16
-- cores with AVX-512 (`sm_count`); its last level is level 2. Network: nine tenths of a GPU's
-- part of its node's ports, of the vendors' own servers: DGX-1 (P100, V100) four of 100 Gb/s
-- for eight GPUs; for each GPU of DGX A100 200, of DGX H100, H200, B200 and of MI300X 400, of
-- B300 800 Gb/s; MI250X four of 200 for eight dies (Frontier). Cards in other servers are
-- assumed to share 100 Gb/s by four, H20 and H800 to be as H100. A step takes 5 us, as in
-- NCCL's tuning of trees for short messages (`tuning.cc`, NET, LL).
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
        fp32 * 1e12 AS fp32, tf32 * 1e12 AS tf32, half * 1e12 AS half,
        CASE WHEN hardware = 'MI300X' THEN 0.68 ELSE 1 END::DOUBLE AS matrix_share,
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
        CASE hardware WHEN 'CPU' THEN 1 ELSE 8 END::BIGINT AS devices_per_node,
        floor_ns::BIGINT AS floor_ns
    FROM (VALUES
        ('V100 PCIe', 0, 'V100S?-PCIE', 14, 14, 112, 900, 6, 2568, 80, 1.38, 15.75, 15.75, 25, 2100),
        ('P100', 1, 'P100([^0-9]|$)', 10.6, 10.6, 21.2, 732, 4, 1591, 56, 1.48, 15.75, 80, 50, 2500),
        ('V100', 2, 'V100([^0-9]|$)', 15.7, 15.7, 125, 900, 6, 2847, 80, 1.53, 15.75, 150, 50, 2100),
        ('T4', 3, '\bT4\b', 8.1, 8.1, 65, 320, 4, 960, 40, 1.59, 15.75, 15.75, 25, 2100),
        ('RTX 2080 Ti', 4, '2080 Ti', 13.4, 13.4, 53.8, 616, 5.5, 1848, 68, 1.545, 15.75, 50, 25, 2000),
        ('A100 PCIe', 5, 'A100.*80GB PCIe', 19.5, 156, 312, 1935, 40, 2271, 108, 1.41, 31.5, 300, 25, 2100),
        ('A100 80GB', 6, 'A100.*80G', 19.5, 156, 312, 2039, 40, 2271, 108, 1.41, 31.5, 300, 200, 2100),
        ('A100 40GB', 7, 'A100([^0-9]|$)', 19.5, 156, 312, 1555, 40, 2271, 108, 1.41, 31.5, 300, 200, 2100),
        ('A10', 8, '\bA10G?\b', 31.2, 62.5, 125, 600, 6, 1800, 72, 1.695, 31.5, 31.5, 25, 2000),
        ('L40S', 9, 'L40S', 91.6, 183, 362, 864, 96, 2592, 142, 2.52, 31.5, 31.5, 25, 1700),
        ('L4', 10, '\bL4\b', 30.3, 60, 121, 300, 48, 900, 58, 2.04, 31.5, 31.5, 25, 1700),
        ('H100 PCIe', 11, 'H100 PCIe', 51.2, 378, 756, 2000, 50, 4000, 114, 1.755, 63, 300, 25, 1600),
        ('H100', 12, 'H100([^0-9]|$)', 66.9, 494.7, 989.4, 3350, 50, 5700, 132, 1.98, 63, 450, 400, 1600),
        ('H200', 13, 'H200([^0-9]|$)', 66.9, 494.7, 989.4, 4800, 50, 5700, 132, 1.98, 63, 450, 400, 1600),
        ('B200', 14, 'B200([^0-9]|$)', 75, 1125, 2250, 8000, 126, 16000, 148, 1.965, 63, 900, 400, 1600),
        ('B300', 15, 'B300([^0-9]|$)', 75, 1125, 2250, 8000, 126, 16000, 148, 1.965, 126, 900, 800, 1600),
        ('MI210', 16, 'MI210([^0-9]|$)', 22.6, 45.3, 181, 1638, 8, 4915, 104, 1.7, 31.5, 150, 25, 3000),
        ('MI250', 17, 'MI250([^0-9]|$)', 23.9, 47.9, 191.5, 1638, 8, 4915, 110, 1.7, 31.5, 200, 100, 3000),
        ('MI300X', 18, 'MI300([^0-9]|$)', 163.4, 653.7, 1307.4, 5300, 32, 10600, 304, 2.1, 63, 448, 400, 2500),
        ('A40', 19, '\bA40\b', 37.4, 74.8, 149.7, 696, 6, 2088, 84, 1.74, 31.5, 56.25, 25, 2000),
        ('H20', 20, '\bH20\b', 44, 74, 148, 4000, 60, 5700, 78, 1.98, 63, 450, 400, 1600),
        ('H800', 21, 'H800([^0-9]|$)', 66.9, 494.7, 989.4, 3350, 50, 5700, 132, 1.98, 63, 200, 400, 1600),
        ('RTX PRO 6000', 22, 'RTX[ _]PRO[ _]6000', 117, 234, 467.8, 1792, 128, 5376, 188, 2.43, 63, 63, 25, 1700),
        ('RTX 6000 Ada', 23, 'RTX ?6000 ?Ada', 91.1, 182.1, 364.2, 960, 96, 2880, 142, 2.505, 31.5, 31.5, 25, 1700),
        ('CPU', 98, 'CPU|Xeon|EPYC|Ryzen', 1.5, 1.5, 3, 150, 32, 400, 16, 3, 150, 150, 100, 1000),
        ('unknown', 99, '', 15.7, 15.7, 125, 900, 6, 2847, 80, 1.53, 15.75, 150, 50, 2100)
    ) AS datasheet (
        hardware, ordinal, name_pattern, fp32, tf32, half, dram, l2, l2_speed, sm_count,
        clock, pcie, nvlink, network, floor_ns
    )
    LEFT JOIN prediction.gpu_generation AS made USING (hardware)
)

SELECT listed.*, reached.* EXCLUDE (hardware)
FROM listed
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
    coalesce(floor_ns, 2000),
    reached_fp32_flops_per_second,
    reached_half_flops_per_second,
    reached_dram_bytes_per_second
FROM reference.hardware AS added
ORDER BY ordinal;
