-- Matrix multiplications: A is [.., m, k], B is [.., k, n] (for `linear` [n, k]). If B is
-- one matrix, all rows of A are rows of one GEMM; otherwise each has its own. FLOPs are 2 m
-- n k per GEMM, four times as many for complex numbers, twice as many for pairs (`float4`). A, B and an added matrix are read,
-- the result is written; an added vector is ignored, like everything no larger than one
-- side. The type is A's, whatever scales and added vectors have. The result has it, too,
-- except that for float8 and float4 it is bfloat16 and for int8 int32 (for `linear`, FBGEMM makes int8
-- again).
-- One row per matrix multiplication of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_gemm (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `mm`, `addmm`, `bmm`, `baddbmm` or `linear`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Batch size.
    batch,
    -- Rows of A, in each.
    m,
    -- Columns of B.
    n,
    -- Length of the sums.
    k,
    -- [B] Total bytes read, if the sizes do not determine them; otherwise NULL.
    input_bytes,
    -- [B] Total bytes written, if the sizes do not determine them; otherwise NULL.
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
        * EXCLUDE (input_bytes, element_bytes),
        a.element.size AS element_bytes,
        a.element.name AS dtype,
        a.element.unit AS unit,
        -- A batched GEMM usually adds matrices, others a vector.
        CASE
            WHEN TRY((added.elements >= batch * m * n) <> (op = 'baddbmm'))
                THEN a.size + b.size + CASE op WHEN 'baddbmm' THEN 0 ELSE added.size END
        END::BIGINT AS input_bytes,
        CASE a.element.size WHEN 1 THEN result_bytes END AS output_bytes,
        is_dtype_known AND a.element.size IN (2, 4) AS is_exact
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
    unit,
    CASE WHEN dtype LIKE 'complex%' THEN 8 WHEN dtype = 'float4' THEN 4 ELSE 2 END
    * coalesce(batch, 1)::DOUBLE * m * n * k AS flops,
    coalesce(input_bytes, try_cast(
        coalesce(batch, 1)::DOUBLE
        * (m * k + k * n + CASE op WHEN 'baddbmm' THEN m * n ELSE 0 END)
        * element_bytes AS BIGINT
    )) AS read_bytes,
    coalesce(output_bytes, try_cast(
        coalesce(batch, 1)::DOUBLE * m * n * (
            CASE
                WHEN dtype IN ('float8', 'float4') THEN 2
                WHEN dtype = 'int8' AND op <> 'linear' THEN 4
                ELSE element_bytes
            END
        ) AS BIGINT
    )) AS written_bytes,
    is_exact
FROM problem;
