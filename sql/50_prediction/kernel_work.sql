-- Work of each kernel, copy and memset. Copies and memsets have their own bytes. The work
-- of an op is divided equally among its kernels; for a GEMM or a convolution, among those
-- that multiply (by their names), without helpers: offsets, layouts, split sums. If cuDNN
-- searches for the fastest algorithm (`torch.backends.cudnn.benchmark`), the first
-- convolution of a shape is done once by each candidate. Such a convolution launches at
-- least three times as many multiplying kernels as another one of that work in the trace:
-- then each has as much of it as there. At most eight algorithms in three kinds of
-- arithmetic are tried: more kernels than that are parts of one.
-- One row per GPU op with known work.
-- Key: gpu_op_id.
CREATE VIEW prediction.kernel_work (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that launched it; NULL for copies and memsets outside of ops.
    op_id,
    -- Device that it runs on.
    device,
    -- Family of the op; `memcpy` or `memset`.
    family,
    -- Arithmetic units; names of kernels show TF32, and 8-bit types of quantized products.
    unit,
    -- Whether it performs the arithmetic of a GEMM or a convolution (`prediction.kernel_name`).
    is_main,
    -- What the bytes go through: `dram`, `pcie`, `pageable` or `nvlink`.
    link,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read and written; over a link, bytes sent.
    traffic_bytes,
    -- Elements written; if a kernel moves 16 bytes at a time, by its name, the number of
    -- such pieces.
    written_elements,
    -- Steps that wait for each other.
    steps,
    -- For a collective, its ranks within a node; otherwise 1.
    node_ranks,
    -- [B] For a collective, what leaves a node: a rank's part of it; otherwise 0.
    network_bytes,
    -- Its steps from node to node; otherwise 0.
    network_steps,
    -- Matrices of a batch that it multiplies; 0 unless it is a GEMM.
    matrices,
    -- How many times as long a GEMM takes because its rows are not aligned.
    unaligned_factor,
    -- Whether it is a softmax of rows of more than 1,024 elements.
    is_wide,
    -- Whether it addresses its elements individually, as for non-contiguous tensors.
    is_strided,
    -- How often its op does the work: 1 unless algorithms are tried.
    attempts,
    -- Whether sizes and types were recorded.
    is_exact
) AS
WITH
gpu_op AS (
    SELECT gpu_op.*, kernel_name.* EXCLUDE (name)
    FROM staging.gpu_op AS gpu_op
    LEFT JOIN prediction.kernel_name AS kernel_name ON gpu_op.name = kernel_name.name
    WHERE kind = 'kernel'
),

launched AS (
    SELECT
        op_id,
        count(*) AS kernel_count,
        count(*) FILTER (is_main) AS main_count
    FROM gpu_op
    WHERE op_id IS NOT NULL
    GROUP BY op_id
),

searched AS (
    SELECT op_id, least(main_count / least_count, 24) AS attempts
    FROM (
        SELECT
            op_id,
            main_count,
            min(main_count) OVER (
                PARTITION BY work.trace_id, flops, read_bytes, written_bytes
            ) AS least_count
        FROM launched
        INNER JOIN prediction.op_work AS work USING (op_id)
        WHERE family = 'convolution' AND main_count > 0
    )
    WHERE main_count >= 3 * least_count
),

shared AS (
    SELECT
        gpu_op_id,
        device,
        is_main, is_tf32, is_fp32, is_byte, is_vectorized, is_strided,
        CASE
            WHEN family NOT IN ('gemm', 'convolution') OR main_count = 0
                THEN 1 / kernel_count
            WHEN is_main THEN coalesce(attempts, 1) / main_count
            ELSE 0
        END AS share,
        coalesce(attempts, 1) AS attempts,
        work.*
    FROM gpu_op
    INNER JOIN launched USING (op_id)
    INNER JOIN prediction.op_work AS work USING (op_id)
    LEFT JOIN searched USING (op_id)
    WHERE is_collective = (family = 'collective') AND (is_main OR NOT is_mixed)
)

SELECT
    gpu_op_id, run_id, trace_id, op_id, device, family,
    CASE
        WHEN unit = 'fp32' AND is_main AND is_tf32 THEN 'tf32'
        WHEN unit = 'tf32' AND is_fp32 THEN 'fp32'
        WHEN unit = 'half' AND is_main AND is_byte THEN 'byte'
        ELSE unit
    END,
    is_main,
    CASE family WHEN 'collective' THEN 'nvlink' ELSE 'dram' END,
    (flops * share)::BIGINT,
    ((read_bytes + written_bytes) * share)::BIGINT,
    (share * CASE WHEN is_vectorized THEN written_bytes / 16 ELSE written_elements END)::BIGINT,
    steps,
    node_ranks,
    (network_bytes * share)::BIGINT,
    network_steps,
    (matrices * share)::BIGINT,
    CASE WHEN unit = 'half' OR is_main AND is_tf32 THEN unaligned_factor ELSE 1 END,
    is_wide, is_strided,
    attempts,
    is_exact
FROM shared
UNION ALL
SELECT
    gpu_op_id, run_id, trace_id, op_id, device, family,
    'fp32',
    false,
    link,
    flops,
    read_bytes + written_bytes,
    0,
    1.0, 1,
    0, 0.0,
    0, 1,
    false, false,
    1.0,
    is_exact
FROM prediction.gpu_copy;
