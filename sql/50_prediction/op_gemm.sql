-- Matrix products: A is [.., m, k], B is [.., k, n] (of `linear` [n, k]). Where B is one
-- matrix, all rows of A are rows of one product; else each has its own.
-- FLOPs are 2 m n k per product. A, B and a matrix that is added are read, the result is
-- written; a vector that is added is left out, as all that is no larger than one side.
-- The result has the type of A, but of float8 it is bfloat16 and of int8 int32 (of
-- `linear` FBGEMM makes int8 again).
-- One row per matrix product of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_gemm (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `mm`, `addmm`, `bmm`, `baddbmm` or `linear`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Products.
    batch,
    -- Rows of A, in each.
    m,
    -- Columns of B.
    n,
    -- Length of the sums.
    k,
    -- [B] All that it reads, where the sizes do not say it; else NULL.
    input_bytes,
    -- [B] All that it writes, where the sizes do not say it; else NULL.
    output_bytes,
    -- Units that do the arithmetic: `fp32`, `tf32` or `half` (`prediction.hardware`).
    unit,
    -- [FLOP] Arithmetic.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether sizes and types of all that counts were recorded.
    is_exact
) AS
WITH
operand AS (
    SELECT
        *,
        regexp_matches(bare_name, '^(_?add|baddbmm)') AS is_added,
        bare_name = 'linear' AS is_linear,
        CASE WHEN is_added THEN tensors[2] ELSE tensors[1] END AS a,
        CASE WHEN is_added THEN tensors[3] ELSE tensors[2] END AS b,
        CASE WHEN is_added THEN tensors[1] END AS added
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name,
            'mm|addmm|bmm|baddbmm|addbmm|matmul|linear|mv|addmv'
            || '|_addmm_activation|_int_mm|_scaled_mm'
        )
),

measured AS (
    SELECT
        *,
        a.dims[-1] AS k,
        CASE
            WHEN is_linear THEN b.dims[1]
            WHEN len(b.dims) >= 2 THEN b.dims[-1]
            ELSE 1
        END AS n,
        CASE
            WHEN len(b.dims) <= 2 OR is_linear THEN 1
            WHEN len(a.dims) > 2 THEN list_product(a.dims[:-3])
            ELSE list_product(b.dims[:-3])
        END::BIGINT AS batch,
        CASE
            WHEN is_linear THEN 'linear'
            WHEN batch > 1 THEN CASE WHEN is_added THEN 'baddbmm' ELSE 'bmm' END
            WHEN is_added THEN 'addmm'
            ELSE 'mm'
        END AS op,
        TRY(a.elements // k // (CASE WHEN len(a.dims) > 2 THEN batch ELSE 1 END)) AS m
    FROM operand
    WHERE a.dims[-1] > 0
),

problem AS (
    SELECT
        * EXCLUDE (input_bytes),
        model_dtype AS dtype,
        -- A product in batches adds matrices as a rule, and others a vector.
        CASE
            WHEN TRY((added.elements >= batch * m * n) <> (op = 'baddbmm'))
                THEN a.size + b.size + CASE op WHEN 'baddbmm' THEN 0 ELSE added.size END
        END::BIGINT AS input_bytes,
        CASE element_bytes WHEN 1 THEN result_bytes END AS output_bytes,
        is_dtype_known AND element_bytes IN (2, 4) AS is_exact
    FROM measured
    WHERE n IS NOT NULL
)

SELECT
    op_id, run_id, trace_id, 'gemm' AS family, op, dtype,
    coalesce(batch, 1) AS batch,
    m,
    n,
    k,
    input_bytes,
    output_bytes,
    CASE WHEN element_bytes <= 2 THEN 'half' ELSE 'fp32' END AS unit,
    2 * coalesce(batch, 1)::DOUBLE * m * n * k AS flops,
    coalesce(input_bytes, try_cast(
        coalesce(batch, 1)::DOUBLE
        * (m * k + k * n + CASE op WHEN 'baddbmm' THEN m * n ELSE 0 END)
        * element_bytes AS BIGINT
    )) AS read_bytes,
    coalesce(output_bytes, try_cast(
        coalesce(batch, 1)::DOUBLE * m * n * (
            CASE
                WHEN dtype = 'float8' THEN 2
                WHEN dtype = 'int8' AND op <> 'linear' THEN 4
                ELSE element_bytes
            END
        ) AS BIGINT
    )) AS written_bytes,
    is_exact
FROM problem;
