-- How much longer work takes on one GPU than on another, by what bounds it. Work of unknown
-- FLOPs and bytes can follow each of these.
-- One row per two GPUs, in both orders, and per GPU with itself.
-- Key: hardware, to_hardware.
CREATE VIEW prediction.gpu_ratio (
    -- The GPU that it is moved from, a row of `prediction.hardware`.
    hardware,
    -- The GPU that it is moved to.
    to_hardware,
    -- Time of work bound by the memory there, divided by that here.
    memory_ratio,
    -- The same, bound by the links between the GPUs of a node.
    link_ratio,
    -- The same, with next to nothing to do.
    floor_ratio,
    -- The least for any work of a GPU alone: bound by its memory, its fp32 arithmetic, its
    -- matrix units, or with next to nothing to do.
    least_ratio,
    -- The greatest of these.
    greatest_ratio,
    -- The least for products of types of at most 16 bits, by the kernel's name
    -- (`prediction.kernel_name`): these use matrix units. Sums and activations of such types
    -- use fp32 arithmetic.
    least_half_ratio,
    -- The greatest of these.
    greatest_half_ratio,
    -- By how many times ratios of collectives are off beyond those of other work
    -- (`prediction.ratio_error`): links of less than 100 GB/s, PCIe or bridges, are shared.
    link_error
) AS
WITH
compared AS (
    SELECT
        here.hardware,
        there.hardware AS to_hardware,
        here.dram_bytes_per_second / there.dram_bytes_per_second AS memory_ratio,
        here.nvlink_bytes_per_second / there.nvlink_bytes_per_second AS link_ratio,
        here.peak_fp32_flops_per_second / there.peak_fp32_flops_per_second AS fp32_ratio,
        here.peak_half_flops_per_second / there.peak_half_flops_per_second AS half_ratio,
        there.floor_ns / here.floor_ns AS floor_ratio,
        least(here.nvlink_bytes_per_second, there.nvlink_bytes_per_second) AS link_rate
    FROM prediction.hardware AS here
    INNER JOIN prediction.hardware AS there ON here.kind = there.kind
    WHERE here.kind = 'gpu'
)

SELECT
    hardware, to_hardware, memory_ratio, link_ratio, floor_ratio,
    least(memory_ratio, fp32_ratio, half_ratio, floor_ratio),
    greatest(memory_ratio, fp32_ratio, half_ratio, floor_ratio),
    least(memory_ratio, half_ratio, floor_ratio),
    greatest(memory_ratio, half_ratio, floor_ratio),
    if(link_rate < 100e9, 2.2, 1)::DOUBLE
FROM compared;
