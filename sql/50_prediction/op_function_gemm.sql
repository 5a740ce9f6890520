-- Linear layers that are autograd functions of their own (Transformer Engine, Megatron, Apex):
-- `rows` of an input are multiplied with a weight, [n, k]; a multilayer perceptron has a second
-- one, [k, n2]. Forward records both as tensors, in an order that depends on the version.
-- Backward records only gradients: it has the forward op's sizes, which it shares a
-- sequence number with, and two products for each of forward, of the input and of the
-- weight. Whether both are needed is not recorded, nor whether matrices are quantized before,
-- except by names of kernels (`prediction.kernel_work`). Only kernels that multiply have this
-- work (`prediction.op_work`): norms, casts and activations have others.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_function_gemm (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family: `layer` or `layer_backward`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Rows of the input.
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
matrix AS (
    SELECT
        op_id, run_id, trace_id, bare_name,
        [t for t in tensors if len(t.dims) > 1 AND t.elements > 0] AS matrices,
        matrices[1] AS a
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND bare_name IN ('_Linear', '_LayerNormLinear', '_LayerNormMLP', 'FusedDenseFunc')
),

-- Of a linear layer the input comes before or after the weight, and possibly copies of it.
operand AS (
    SELECT
        *,
        CASE bare_name
            WHEN '_LayerNormMLP' THEN [t for t in matrices[2:] if t.dims[-1] = a.dims[-1]][1]
            ELSE [t for t in matrices[2:] if t.dims[-1] = a.dims[-1]][
                CASE bare_name WHEN '_Linear' THEN -1 ELSE 1 END
            ]
        END AS b,
        CASE bare_name
            WHEN '_LayerNormMLP'
                THEN [
                    t for t in matrices[3:]
                    if len(t.dims) = 2 AND t.dims[1] = a.dims[-1] AND t.dims[2] <> a.dims[-1]
                ][1]
        END AS second
    FROM matrix
),

multiplied AS (
    SELECT
        *,
        a.dims[-1] AS k,
        -- The one with more than two sizes is the input; otherwise both orders are alike.
        TRY(CASE WHEN len(b.dims) > 2 THEN b.elements ELSE a.elements END // k) AS rows,
        TRY(CASE WHEN len(b.dims) > 2 THEN a.elements ELSE b.elements END // k) AS n,
        coalesce(second.dims[2], 0) AS n2,
        a.element AS element
    FROM operand
    WHERE b IS NOT NULL AND (second IS NOT NULL OR bare_name <> '_LayerNormMLP')
),

-- A forward op and its backward op, if no other has the number.
backward AS (
    SELECT gradient.op_id, min(forward.op_id) AS forward_id
    FROM staging.op AS gradient
    INNER JOIN staging.op AS forward USING (trace_id, sequence_number)
    INNER JOIN multiplied ON forward.op_id = multiplied.op_id
    WHERE
        gradient.name IN (
            '_LinearBackward', '_LayerNormLinearBackward', '_LayerNormMLPBackward',
            'FusedDenseFuncBackward'
        )
        AND gradient.name = multiplied.bare_name || 'Backward'
    GROUP BY gradient.op_id
    HAVING count(*) = 1
),

problem AS (
    SELECT
        op_id, run_id, trace_id, 'layer' AS op,
        element.name AS dtype, element.unit AS unit, rows,
        2 * rows::DOUBLE * k * (n + n2) AS flops,
        element.size * (rows::DOUBLE * (k + n2) + k * (n + n2)) AS input_bytes,
        element.size * (rows::DOUBLE * n + CASE WHEN n2 > 0 THEN rows * k ELSE 0 END)
        AS output_bytes,
        false AS is_exact
    FROM multiplied
    UNION ALL
    SELECT
        backward.op_id, run_id, trace_id, 'layer_backward',
        element.name, element.unit, rows,
        4 * rows::DOUBLE * k * (n + n2),
        -- The gradient of the result, twice, the weight and the input.
        element.size * (
            rows::DOUBLE * (2 * n + k) + k * n
            + CASE WHEN n2 > 0 THEN rows::DOUBLE * (2 * k + n2) + k * n2 ELSE 0 END
        ),
        element.size * (
            rows::DOUBLE * k + k * n + CASE WHEN n2 > 0 THEN rows::DOUBLE * n2 + k * n2 ELSE 0 END
        ),
        false
    FROM backward
    INNER JOIN multiplied ON forward_id = multiplied.op_id
)

SELECT
    op_id, run_id, trace_id, 'gemm' AS family, op, dtype,
    rows,
    try_cast(input_bytes AS BIGINT) AS input_bytes,
    try_cast(output_bytes AS BIGINT) AS output_bytes,
    unit,
    flops,
    try_cast(input_bytes AS BIGINT) AS read_bytes,
    try_cast(output_bytes AS BIGINT) AS written_bytes,
    is_exact
FROM problem;
