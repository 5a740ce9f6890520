-- Time of GPU work by a calibrated roofline: a fixed floor, and the longest of arithmetic,
-- traffic and addressing at the rates that the family reaches on the hardware. What fits
-- into the cache of the memory touched moves at the cache's speed, the rest at the
-- memory's. GEMMs with unaligned rows take 1.4 times as long on matrix units, with odd ones
-- 2 times, as on V100 (apex_plus: half-precision GEMMs of more than 1 GFLOP, of which 1,567
-- are even and 1,104 odd); reading elements of 4 bytes takes 1.3 times as long (TF32 on
-- A100: seven shapes of a trace, 1.17 to 1.6). Each matrix of a batch takes a block of
-- threads for at least 2,500 clocks on NVIDIA's GPUs (NeuSight's bmm of up to 64 by 64 by
-- 24, without the time of a launch, which is in each of them: about 4,500 on P4 and T4,
-- 5,000 on P100, less than 1,000 on V100), on AMD's for 9,700 (two ops on MI300X: 4,800 and
-- 19,600). On Ampere, while a copy from the GPU to pinned memory runs, one to the GPU has
-- 0.46 of its rate, and the other keeps its own (two hosts with A100, nvbandwidth: 11 of
-- 24.8 and 12.5 of 25.5 GB/s). Softmax of rows that no warp can hold takes 2.1 times as
-- long on AMD GPUs (NeuSight's MI210: 184 shapes of 30 MB and more). A block of threads
-- moves at most 12.6 B/ns on any GPU: 512 threads with 16 bytes each under way for 650 ns.
-- A few wide rows, each of one block, take as long as one of them. A kernel that begins
-- beside one of another stream has 2.7 times its floor, because it waits for space (median
-- of small kernels of three traces: 1.5, 2.7 and 4.1 times). Copies by AMD's runtime have
-- 2.2 times the floor (MI300X, four traces). Elementwise kernels that address their
-- elements individually are treated like those of broadcasts. A multiprocessor of an AMD
-- GPU moves 0.25 elements per clock that take a cache line each, as in a transposing copy
-- (geometric mean of four ops of 17 to 19 million elements on MI300X: 0.19 to 0.30; strides
-- show no such op on other GPUs, for which nothing is assumed). Collectives over several
-- nodes take as long as the slower of the links within a node and the network between them.
-- Nothing here is learned from the trace's own times except which kernels ran at the same
-- time. On unlisted hardware the band is 4 times as wide to either side. The time of a
-- collective is that of its message: it excludes the wait for the last rank, during which
-- its kernel runs.
-- One row per GPU op with known work.
-- Key: gpu_op_id.
CREATE TABLE prediction.kernel_roofline (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that launched it.
    op_id,
    -- The unit of prediction: the kernels of its op; copies and memsets individually.
    problem_id,
    -- Row of `prediction.hardware`.
    hardware,
    -- Family, see `prediction.kernel_efficiency`.
    family,
    -- Units that do the arithmetic, as far as the hardware has them.
    unit,
    -- Whether it performs the arithmetic of a GEMM or a convolution, by its name.
    is_main,
    -- What its bytes go through, as in `prediction.kernel_work`.
    link,
    -- [B] Bytes read and written; over a link, bytes sent.
    traffic_bytes,
    -- [ns] Time of the bytes alone.
    traffic_ns,
    -- [ns] Time of arithmetic, addressing, scattered accesses, or a row's block: the longest.
    other_ns,
    -- [ns] Time by the roofline.
    roofline_ns,
    -- [ns] Lower end of its band.
    low_ns,
    -- [ns] Upper end of its band.
    high_ns,
    -- How often its op does its work: more than once if cuDNN tries algorithms.
    attempts,
    -- Whether shape, type and hardware are known rather than assumed.
    in_range
) AS
WITH
bound AS (
    SELECT
        *,
        CASE WHEN is_known THEN 1 ELSE 4 END AS doubt,
        CASE WHEN vendor = 'AMD' AND family = 'memcpy' THEN 2.2 ELSE 1 END
        * CASE WHEN concurrent.gpu_op_id IS NOT NULL THEN 2.7 ELSE 1 END AS delayed,
        floor_ns * floors * delayed * steps + network_latency_ns * network_steps AS fixed_ns,
        unit <> 'tf32' OR peak_tf32_flops_per_second > peak_fp32_flops_per_second AS has_unit,
        CASE
            WHEN is_wide AND vendor = 'AMD' THEN 2.1e9
            WHEN has_unit THEN 1e9 * unaligned_factor
            ELSE 1e9
        END AS unit_ns,
        unit_ns * flops / compute_share / (
            fp64_peaks * peak_fp64_flops_per_second
            + fp32_peaks * peak_fp32_flops_per_second
            + matrix_share * (
                fp64_matrix_peaks * peak_fp64_matrix_flops_per_second
                + tf32_peaks * peak_tf32_flops_per_second
                + half_peaks * peak_half_flops_per_second
            )
        ) AS compute_ns,
        least(coalesce(l2_bytes / nullif(coalesce(touched_share, 1) * traffic_bytes, 0), 1), 1)
        AS cached_share,
        CASE WHEN unit = 'tf32' THEN least(unit_ns, 1.3e9) ELSE unit_ns END * CASE link
            WHEN 'pcie' THEN (
                traffic_bytes
                + coalesce(generation = 'Ampere', false)::INTEGER
                * least(0.54 * coalesce(opposed_bytes, 0), 1.17 * traffic_bytes)
            ) / (memory_share * pcie_bytes_per_second)
            WHEN 'pageable'
                THEN traffic_bytes
                / (memory_share * least(pageable_bytes_per_second, pcie_bytes_per_second))
            WHEN 'nvlink' THEN greatest(
                traffic_bytes / memory_share / CASE
                    WHEN node_ranks > linked_devices THEN pcie_bytes_per_second
                    ELSE nvlink_bytes_per_second
                END,
                network_bytes / network_bytes_per_second
            )
            ELSE
                -- The cache is no slower than the memory behind it.
                traffic_bytes * cached_share / greatest(
                    cache_share * l2_bytes_per_second, memory_share * dram_bytes_per_second
                )
                + traffic_bytes * (1 - cached_share) / (memory_share * dram_bytes_per_second)
        END AS traffic_ns,
        coalesce(
            1e9 * written_elements / (elements_per_clock * sm_count * clocks_per_second), 0
        ) AS element_ns,
        coalesce(
            (vendor = 'AMD')::INTEGER * 1e9 * written_elements * scattered_share
            / (0.25 * sm_count * clocks_per_second), 0
        ) AS scatter_ns,
        coalesce(traffic_bytes * block_share / 12.6, 0) AS block_ns,
        CASE vendor WHEN 'AMD' THEN 9700e9 ELSE 2500e9 END / clocks_per_second
        * greatest(matrices / sm_count - 1, 0) AS matrix_ns,
        least( -- sums of times are limited, and an hour or more is not a time of GPU work
            fixed_ns
            + greatest(compute_ns, traffic_ns, element_ns, scatter_ns, block_ns, matrix_ns),
            3_600_000_000_000
        ) AS roofline_ns
    FROM prediction.kernel_work
    INNER JOIN prediction.kernel_device USING (run_id, trace_id, device)
    LEFT JOIN (
        SELECT
            op_id,
            block_bytes / nullif(read_bytes + written_bytes, 0) AS block_share,
            touched_share, scattered_share
        FROM prediction.op_work
    ) USING (op_id)
    LEFT JOIN prediction.concurrent_kernel AS concurrent USING (gpu_op_id, trace_id)
    LEFT JOIN prediction.opposed_copy USING (gpu_op_id, trace_id)
    INNER JOIN prediction.hardware USING (hardware)
    INNER JOIN prediction.arithmetic_unit USING (unit)
    LEFT JOIN (SELECT family AS listed_family FROM prediction.kernel_efficiency)
        ON
            listed_family
            = CASE
                WHEN family = 'elementwise' AND is_strided THEN 'broadcast'
                WHEN family = 'memcpy' AND link = 'pcie' THEN 'pinned'
                ELSE family
            END
    INNER JOIN (SELECT * RENAME (family AS known) FROM prediction.kernel_efficiency)
        ON known = coalesce(listed_family, 'other')
)

SELECT
    gpu_op_id,
    run_id,
    trace_id,
    op_id,
    CASE WHEN family IN ('memcpy', 'memset') THEN gpu_op_id ELSE op_id END,
    hardware,
    family,
    CASE WHEN has_unit THEN unit ELSE 'fp32' END,
    is_main,
    link,
    traffic_bytes,
    round(least(traffic_ns, 3_600_000_000_000))::BIGINT,
    round(least(
        greatest(compute_ns, element_ns, scatter_ns, block_ns, matrix_ns), 3_600_000_000_000
    ))::BIGINT,
    round(roofline_ns)::BIGINT,
    floor(roofline_ns * low_factor / doubt)::BIGINT,
    ceil(roofline_ns * high_factor * doubt)::BIGINT,
    attempts,
    is_exact AND is_known
FROM bound;
