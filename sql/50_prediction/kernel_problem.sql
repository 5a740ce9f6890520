-- GPU work as input for kernel models, in the terms of `prediction.op_problem`. A model
-- predicts a whole problem; its kernels share the time in proportion to their rooflines.
-- Kernels of both gradients of a convolution are told apart by name, otherwise by order (the
-- input's first); a helper belongs to the kernel after it. Models do not cover lookups by 16
-- bytes (PyTorch 2.8), elementwise kernels of strided tensors, and attention with a window.
-- One row per GPU op of known shape.
-- Key: gpu_op_id.
CREATE VIEW prediction.kernel_problem (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that launched it; NULL for copies and memsets outside of ops.
    op_id,
    -- [1] Its share of the problem's time; if cuDNN tries algorithms, of each try.
    problem_share,
    -- Row of `prediction.hardware`.
    hardware,
    -- Family of the kernel models.
    family,
    -- Op of the family.
    op,
    -- Type of the elements: `float32`, `tf32`, `bfloat16` and so on; NULL for copies.
    dtype,
    -- The library of an attention's kernels (`prediction.attention_kernel`); NULL for the rest.
    implementation,
    -- Batch size of a GEMM; matrices copied.
    batch,
    -- M of a GEMM: rows of A.
    m,
    -- N of a GEMM: columns of B.
    n,
    -- K of a GEMM: length of its sums.
    k,
    -- Images of a convolution; sequences of an attention.
    images,
    -- Channels of a convolution's input.
    channels_in,
    -- Channels of its output.
    channels_out,
    -- Rows of its input.
    height,
    -- Columns of its input; elements of a row.
    width,
    -- Rows of its filter.
    kernel_height,
    -- Columns of its filter.
    kernel_width,
    -- Its stride.
    stride,
    -- Its padding.
    padding,
    -- Its dilation.
    dilation,
    -- Its groups.
    groups,
    -- Rows of its output.
    output_height,
    -- Columns of its output.
    output_width,
    -- Heads of an attention.
    heads,
    -- Heads of its keys.
    kv_heads,
    -- Queries of a sequence.
    queries,
    -- Keys of a sequence.
    keys,
    -- Elements of a head.
    head_dim,
    -- 1 if attention is causal, otherwise 0.
    causal,
    -- Rows looked up, summed, normalized, concatenated or moved.
    rows,
    -- Rows of the lookup table.
    table_rows,
    -- Rows of its gradient that are zeroed first.
    cleared_rows,
    -- Tables looked up.
    tables,
    -- Bags of each table, in which rows are summed.
    bags,
    -- Mean number of rows per bag.
    pooling,
    -- Distinct rows looked up, over all tables.
    distinct_rows,
    -- Elements written; elements updated.
    elements,
    -- Tensors read.
    inputs,
    -- Tensors written.
    outputs,
    -- Tensors concatenated or updated.
    tensors,
    -- [B] Total bytes read, if the other sizes do not determine it.
    input_bytes,
    -- [B] Total bytes written, if the other sizes do not determine it.
    output_bytes,
    -- Bytes copied or set; the message of a collective, as NCCL's tests count it.
    bytes,
    -- Ranks of a collective.
    ranks,
    -- Ranks of it per node.
    ranks_per_node
) AS
WITH
work AS (
    SELECT roofline.*, name, kind, start_ns
    FROM prediction.kernel_roofline AS roofline
    INNER JOIN staging.gpu_op USING (gpu_op_id)
),

-- Kernels of ops that compute two gradients, in order.
ranked AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(name, '(?i)wgrad|wrw|(bwd|backward|grad)_?(weight|filter)') THEN 2
            WHEN regexp_matches(name, '(?i)dgrad|(bwd|backward)_?data|_bwd_|2d_backward') THEN 1
        END AS named,
        count(*) FILTER (is_main) OVER (
            PARTITION BY op_id ORDER BY start_ns, gpu_op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) + 1 AS ordinal,
        count(*) FILTER (is_main) OVER (PARTITION BY op_id) AS main_count
    FROM work
    WHERE op_id IN (FROM prediction.op_convolution SELECT op_id GROUP BY op_id HAVING count(*) > 1)
),

gradient AS (
    SELECT
        helper.gpu_op_id,
        CASE WHEN coalesce(main.named = 1, 2 * main.ordinal <= main.main_count) THEN 'input'
            ELSE 'weight' END AS operand
    FROM ranked AS helper
    LEFT JOIN ranked AS main
        ON helper.op_id = main.op_id AND main.is_main
        AND main.ordinal = least(helper.ordinal, helper.main_count)
),

launched AS (
    SELECT
        gpu_op_id, work.run_id, work.trace_id, roofline_ns, attempts, hardware,
        work.unit = 'tf32' AS is_tf32,
        problem.* EXCLUDE (
            run_id, trace_id, visible_keys, unit, flops, read_bytes, written_bytes,
            network_bytes, network_steps, footprint_bytes, is_exact
        )
    FROM work
    LEFT JOIN gradient USING (gpu_op_id)
    INNER JOIN prediction.op_problem AS problem
        ON
            work.op_id = problem.op_id
            AND coalesce((operand = 'weight') = (problem.op = 'backward_weight'), true)
    WHERE kind = 'kernel' AND NOT contains(name, 'vectorized_gather') AND visible_keys IS NULL
        AND (problem.family <> 'elementwise' OR NOT contains(name, ' at::native::elementwise_k'))
),

problem_total AS (
    SELECT op_id, op, sum(roofline_ns) AS total_ns, bool_or(is_tf32) AS is_tf32
    FROM launched
    GROUP BY op_id, op
)

SELECT
    gpu_op_id, run_id, trace_id, op_id, attempts * roofline_ns / total_ns AS problem_share,
    hardware, family, op,
    CASE WHEN problem_total.is_tf32 AND dtype = 'float32' THEN 'tf32' ELSE dtype END AS dtype,
    CASE family WHEN 'attention' THEN implementation END AS implementation,
    launched.* EXCLUDE (gpu_op_id, run_id, trace_id, op_id, roofline_ns, attempts, hardware,
        is_tf32, family, op, dtype)
FROM launched
INNER JOIN problem_total USING (op_id, op)
LEFT JOIN prediction.attention_kernel USING (op_id)
UNION ALL BY NAME
SELECT gpu_op_id, run_id, trace_id, copied.op_id, 1 AS problem_share, hardware, family, op, bytes
FROM prediction.gpu_copy AS copied
INNER JOIN work USING (gpu_op_id, run_id, trace_id, family);
