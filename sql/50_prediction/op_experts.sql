-- Experts of a mixture, in one op: each of `rows` tokens goes to as many of them as
-- its list has. A gate and a projection are multiplied with it, [experts, 2 i, k], then the
-- product of both with another matrix, [experts, k, i]; without a gate the first are half. Matrices
-- of all experts that can have a token are read once: which have one is not recorded, so
-- with few tokens it may be fewer. What is between the products is written and read. Only
-- their kernels have this work (`prediction.op_work`): routing and the activation have others.
-- Weights of 8 bits are multiplied as such if they are floating, others by A's type.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_experts (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family: `experts`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Tokens.
    rows,
    -- [B] Total bytes read.
    input_bytes,
    -- [B] Total bytes written.
    output_bytes,
    -- Arithmetic units, as in `prediction.arithmetic_unit`.
    unit,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
operand AS (
    SELECT
        *,
        [t for t in tensors if t.argument = 0][1] AS hidden,
        [t for t in tensors if t.argument = 1][1] AS up,
        [t for t in tensors if t.argument = 2][1] AS down,
        [t for t in tensors if t.argument = 4][1] AS chosen
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name,
            '(vllm|sglang)::(in|out)place_fused_experts|aiter::fused_moe'
            || '|vllm::rocm_aiter_(fused_moe|asm_moe(_tkw1)?)'
        )
),

sized AS (
    SELECT
        *,
        CASE up.element.name WHEN 'float8' THEN up.element ELSE hidden.element END AS multiplied,
        hidden.dims[1] AS rows,
        hidden.dims[2] AS k,
        up.dims[2] AS up_width,
        -- Weights may be packed, so their columns are not what is multiplied.
        TRY(down.dims[3] * (k / up.dims[3])) AS down_depth,
        -- [1] The part of the experts that can have a token.
        least(TRY(chosen.elements / up.dims[1]), 1) AS active
    FROM operand
    WHERE len(hidden.dims) = 2 AND len(up.dims) = 3 AND len(down.dims) = 3
        AND len(chosen.dims) = 2 AND chosen.dims[1] = hidden.dims[1]
        AND up.dims[1] = down.dims[1] AND down.dims[2] = hidden.dims[2]
),

problem AS (
    SELECT
        * EXCLUDE (input_bytes),
        multiplied.name AS dtype,
        multiplied.unit AS unit,
        2 * chosen.elements::DOUBLE * k * (up_width + down_depth) AS flops,
        hidden.size + active * (up.size + down.size)
        + chosen.elements::DOUBLE * down_depth * multiplied.size AS input_bytes,
        chosen.elements::DOUBLE * (up_width + k) * hidden.element.size AS output_bytes,
        false AS is_exact
    FROM sized
    WHERE up_width > 0 AND down_depth > 0
)

SELECT
    op_id, run_id, trace_id, 'gemm' AS family, 'experts' AS op, dtype,
    rows,
    try_cast(input_bytes AS BIGINT) AS input_bytes,
    try_cast(output_bytes AS BIGINT) AS output_bytes,
    unit,
    flops,
    try_cast(input_bytes AS BIGINT) AS read_bytes,
    try_cast(output_bytes AS BIGINT) AS written_bytes,
    is_exact
FROM problem;
