-- Datasheets of devices, in the vendors' units: dense rates, no sparsity. NVLink and PCIe
-- count one direction. The last row is used for every GPU that no other row names.
-- One row per device model.
-- Key: hardware.
CREATE TABLE prediction.datasheet (
    -- Name of the model.
    hardware,
    -- A device's model is the row with the lowest ordinal whose pattern is in its name.
    ordinal,
    -- Regular expression to find in the name of a device, case-insensitive.
    name_pattern,
    -- TFLOP/s of fp64 arithmetic outside matrix units.
    fp64,
    -- TFLOP/s of fp64 GEMMs; same as the above if there is no such unit.
    fp64_matrix,
    -- TFLOP/s of fp32 arithmetic outside matrix units.
    fp32,
    -- TFLOP/s of fp32 GEMMs with TF32 inputs; same as fp32 if there is no such unit.
    tf32,
    -- TFLOP/s of fp16 and bf16 GEMMs that add in fp32.
    half,
    -- GB/s of the GPU's memory.
    dram,
    -- MiB of level-2 cache.
    l2,
    -- GB/s of that cache.
    l2_speed,
    -- Streaming multiprocessors, or compute units.
    sm_count,
    -- GHz of the boost clock.
    clock,
    -- GB/s between pinned host memory and the GPU.
    pcie,
    -- GB/s to all GPUs together that it is linked with; PCIe if there is no link.
    nvlink,
    -- Gb/s of its part of the ports of its node.
    network,
    -- [ns] Duration of a kernel with next to nothing to do.
    floor_ns
) AS
-- Peaks, memory, links: NVIDIA's datasheets of P100, V100 (its PCIe card has no NVLink), T4,
-- A10, A40, A100, A800, L4, L40S, H100, H200 and their NVL cards, GH200, HGX B200 and B300,
-- GB200 and GB300 NVL72 (a 72nd of each), RTX A6000, RTX 6000 Ada; its whitepapers of Turing
-- (RTX 2080 Ti), GA102 (RTX 3090), Ada (RTX 4090) and RTX Blackwell (RTX 5090); AMD's of
-- MI210, MI250X (half: a device is one of two dies), MI300A, MI300X, MI325X, MI350X and
-- MI355X (which has no TF32). fp64: the same; a 32nd (Turing) or 64th (GA102, Ada, RTX
-- Blackwell) of fp32 by the whitepapers where a datasheet has none. H20, H800 and A800 have
-- none or few figures: vendors', else H100's and A100's. V100S, A30, A10G: unconfirmed.
-- L40, L20, MI100: as listed by others. RTX PRO 6000: its Server Edition at the 2.43 GHz of
-- aiconfigurator's system file. Cache bandwidth: measured by Lin et al. for
-- P100, V100 and A100 (HW_PARAMS), else 3 times the memory's, 2 times from H100 on
-- (chipsandcheese.com). Floor: median of the smallest elementwise kernels in public traces
-- of ns resolution (V100 2.1, A100 2.2, H100 1.7, MI300X 2.3 us) and the shortest GEMMs of
-- aiconfigurator's data (B200 1.8, L40S 1.7 us); the others are guessed from their
-- neighbors. CPU: about a server of 16 cores with AVX-512 (`sm_count`); its last level is
-- level 2. Network: ports of the vendors' own servers: DGX-1 (P100, V100) four of 100 Gb/s
-- for eight GPUs; for each GPU of DGX A100 200, of DGX H100, H200, B200, of GB200 and of
-- MI300X 400, of B300 and GB300 800; of GH200 and MI300A 200; MI250X four of 200 for eight
-- dies (Frontier). Cards in other servers are assumed to share 100 Gb/s by four, H20 and
-- H800 to be as H100.
-- Two rates are not here, since those of short types follow from `half`
-- (`prediction.arithmetic_unit`): MI100 multiplies bf16 at 92.3, half of fp16, so predictions
-- of it are up to twice too fast; B300 and GB300 multiply FP4 at 13 to 15 PFLOP/s (sources
-- differ), where 9 and 10 follow, so predictions of it are up to 1.5 times too slow.
SELECT * REPLACE (floor_ns::BIGINT AS floor_ns)
FROM (VALUES
    ('V100S', 0, 'V100S-PCIE', 8.2, 8.2, 16.4, 16.4, 130, 1134, 6, 3235, 80, 1.597, 15.75, 15.75, 25, 2100),
    ('V100 PCIe', 1, 'V100-PCIE', 7, 7, 14, 14, 112, 900, 6, 2568, 80, 1.38, 15.75, 15.75, 25, 2100),
    ('P100', 2, 'P100([^0-9]|$)', 5.3, 5.3, 10.6, 10.6, 21.2, 732, 4, 1591, 56, 1.48, 15.75, 80, 50, 2500),
    ('V100', 3, 'V100([^0-9]|$)', 7.8, 7.8, 15.7, 15.7, 125, 900, 6, 2847, 80, 1.53, 15.75, 150, 50, 2100),
    ('T4', 4, '\bT4\b', 0.253, 0.253, 8.1, 8.1, 65, 320, 4, 960, 40, 1.59, 15.75, 15.75, 25, 2100),
    ('RTX 2080 Ti', 5, '2080 Ti', 0.42, 0.42, 13.4, 13.4, 53.8, 616, 5.5, 1848, 68, 1.545, 15.75, 50, 25, 2000),
    ('A100 PCIe', 6, 'A100.*80GB PCIe', 9.7, 19.5, 19.5, 156, 312, 1935, 40, 2271, 108, 1.41, 31.5, 300, 25, 2100),
    ('A100 80GB', 7, 'A100.*80G', 9.7, 19.5, 19.5, 156, 312, 2039, 40, 2271, 108, 1.41, 31.5, 300, 200, 2100),
    ('A100 40GB', 8, 'A100([^0-9]|$)', 9.7, 19.5, 19.5, 156, 312, 1555, 40, 2271, 108, 1.41, 31.5, 300, 200, 2100),
    ('A800 PCIe', 9, 'A800.*PCIe', 9.7, 19.5, 19.5, 156, 312, 1935, 40, 2271, 108, 1.41, 31.5, 200, 25, 2100),
    ('A800', 10, 'A800([^0-9]|$)', 9.7, 19.5, 19.5, 156, 312, 2039, 40, 2271, 108, 1.41, 31.5, 200, 200, 2100),
    ('A30', 11, '\bA30\b', 5.2, 10.3, 10.3, 82, 165, 933, 24, 2799, 56, 1.44, 31.5, 100, 25, 2100),
    ('A10G', 12, '\bA10G\b', 0.547, 0.547, 35, 35, 70, 600, 6, 1800, 80, 1.71, 31.5, 31.5, 25, 2000),
    ('A10', 13, '\bA10\b', 0.488, 0.488, 31.2, 62.5, 125, 600, 6, 1800, 72, 1.695, 31.5, 31.5, 25, 2000),
    ('A40', 14, '\bA40\b', 0.584, 0.584, 37.4, 74.8, 149.7, 696, 6, 2088, 84, 1.74, 31.5, 56.25, 25, 2000),
    ('RTX A6000', 15, 'RTX A6000', 0.605, 0.605, 38.7, 77.4, 154.8, 768, 6, 2304, 84, 1.8, 31.5, 56.25, 25, 2000),
    ('RTX 3090', 16, 'RTX 3090$', 0.556, 0.556, 35.6, 35.6, 71, 936, 6, 2808, 82, 1.695, 31.5, 56.25, 25, 2000),
    ('L40S', 17, 'L40S', 1.43, 1.43, 91.6, 183, 362, 864, 96, 2592, 142, 2.52, 31.5, 31.5, 25, 1700),
    ('L40', 18, '\bL40G?\b', 1.41, 1.41, 90.5, 90.5, 181, 864, 96, 2592, 142, 2.49, 31.5, 31.5, 25, 1700),
    ('L20', 19, '\bL20\b', 0.934, 0.934, 59.8, 59.8, 119.5, 864, 96, 2592, 92, 2.52, 31.5, 31.5, 25, 1700),
    ('L4', 20, '\bL4\b', 0.473, 0.473, 30.3, 60, 121, 300, 48, 900, 58, 2.04, 31.5, 31.5, 25, 1700),
    ('RTX 6000 Ada', 21, 'RTX ?6000 ?Ada', 1.42, 1.42, 91.1, 182.1, 364.2, 960, 96, 2880, 142, 2.505, 31.5, 31.5, 25, 1700),
    ('RTX 4090', 22, 'RTX 4090$', 1.29, 1.29, 82.6, 82.6, 165.2, 1008, 72, 3024, 128, 2.52, 31.5, 31.5, 25, 1700),
    ('H100 PCIe', 23, 'H100 PCIe', 25.6, 51.2, 51.2, 378, 756, 2000, 50, 4000, 114, 1.755, 63, 300, 25, 1600),
    ('H100 NVL', 24, 'H100 NVL', 30, 60, 60, 417.5, 835, 3938, 50, 5700, 132, 1.785, 63, 300, 25, 1600),
    ('H100', 25, 'H100([^0-9]|$)', 33.5, 66.9, 66.9, 494.7, 989.4, 3350, 50, 5700, 132, 1.98, 63, 450, 400, 1600),
    ('GH200 144GB', 26, 'GH200.*144G', 34, 67, 67, 494, 990, 4900, 50, 5700, 132, 1.98, 450, 450, 200, 1600),
    ('GH200', 27, 'GH200([^0-9]|$)', 34, 67, 67, 494, 990, 4000, 50, 5700, 132, 1.98, 450, 450, 200, 1600),
    ('H200 NVL', 28, 'H200 NVL', 30, 60, 60, 417.5, 835, 4800, 50, 5700, 132, 1.785, 63, 450, 25, 1600),
    ('H200', 29, 'H200([^0-9]|$)', 33.5, 66.9, 66.9, 494.7, 989.4, 4800, 50, 5700, 132, 1.98, 63, 450, 400, 1600),
    ('H20', 30, '\bH20\b', 1, 1, 44, 74, 148, 4000, 60, 5700, 78, 1.98, 63, 450, 400, 1600),
    ('H800 PCIe', 31, 'H800 PCIe', 0.8, 0.8, 51.2, 378, 756, 2000, 50, 4000, 114, 1.755, 63, 200, 25, 1600),
    ('H800', 32, 'H800([^0-9]|$)', 1, 1, 66.9, 494.7, 989.4, 3350, 50, 5700, 132, 1.98, 63, 200, 400, 1600),
    ('GB200', 33, 'GB200([^0-9]|$)', 40, 40, 80, 1250, 2500, 8000, 126, 16000, 152, 2.062, 225, 900, 400, 1600),
    ('GB300', 34, 'GB300([^0-9]|$)', 1.39, 1.39, 80, 1250, 2500, 8000, 126, 16000, 152, 2.062, 225, 900, 800, 1600),
    ('B200', 35, 'B200([^0-9]|$)', 37, 37, 75, 1125, 2250, 8000, 126, 16000, 148, 1.965, 63, 900, 400, 1600),
    ('B300', 36, 'B300([^0-9]|$)', 1.25, 1.25, 75, 1125, 2250, 8000, 126, 16000, 148, 1.965, 126, 900, 800, 1600),
    ('RTX PRO 6000', 37, 'RTX[ _]PRO[ _]6000', 1.83, 1.83, 117, 234, 467.8, 1792, 128, 5376, 188, 2.43, 63, 63, 25, 1700),
    ('RTX 5090', 38, 'RTX 5090$', 1.64, 1.64, 104.8, 104.8, 209.5, 1792, 96, 5376, 170, 2.407, 63, 63, 25, 1700),
    ('MI100', 39, 'MI100([^0-9]|$)', 11.5, 11.5, 23.1, 46.1, 184.6, 1229, 8, 3687, 120, 1.502, 31.5, 138, 25, 3000),
    ('MI210', 40, 'MI210([^0-9]|$)', 22.6, 45.3, 22.6, 45.3, 181, 1638, 8, 4915, 104, 1.7, 31.5, 150, 25, 3000),
    ('MI250', 41, 'MI250([^0-9]|$)', 23.9, 47.9, 23.9, 47.9, 191.5, 1638, 8, 4915, 110, 1.7, 31.5, 200, 100, 3000),
    ('MI300A', 42, 'MI300A', 61.3, 122.6, 122.6, 490.3, 980.6, 5300, 24, 10600, 228, 2.1, 63, 384, 200, 2500),
    ('MI300X', 43, 'MI300([^0-9]|$)', 81.7, 163.4, 163.4, 653.7, 1307.4, 5300, 32, 10600, 304, 2.1, 63, 448, 400, 2500),
    ('MI325X', 44, 'MI325X?([^0-9]|$)', 81.7, 163.4, 163.4, 653.7, 1307.4, 6000, 32, 12000, 304, 2.1, 63, 448, 400, 2500),
    ('MI350X', 45, 'MI350X?([^0-9]|$)', 72.1, 72.1, 144.2, 144.2, 2306.9, 8000, 32, 16000, 256, 2.2, 63, 537.6, 400, 2500),
    ('MI355X', 46, 'MI355X?([^0-9]|$)', 78.6, 78.6, 157.3, 157.3, 2516.6, 8000, 32, 16000, 256, 2.4, 63, 537.6, 400, 2500),
    ('CPU', 98, 'CPU|Xeon|EPYC|Ryzen', 0.75, 0.75, 1.5, 1.5, 3, 150, 32, 400, 16, 3, 150, 150, 100, 1000),
    ('unknown', 99, '', 7.8, 7.8, 15.7, 15.7, 125, 900, 6, 2847, 80, 1.53, 15.75, 150, 50, 2100)
) AS listed (
    hardware, ordinal, name_pattern, fp64, fp64_matrix, fp32, tf32, half, dram, l2, l2_speed,
    sm_count, clock, pcie, nvlink, network, floor_ns
);
