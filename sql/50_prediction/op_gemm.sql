-- Matrix multiplications: A is [.., m, k], B is [.., k, n] (for `linear` [n, k]). If B is one
-- matrix, all rows of A are rows of one GEMM; otherwise each has its own. FLOPs are 2 m n k per
-- GEMM, four times as many for complex numbers, twice as many for pairs (`float4`). A, B and an
-- added matrix are read, the result is written; an added vector is ignored, like everything no
-- larger than one side. In an estimate, which knows memory, a product with itself reads it
-- once. The type is A's, whatever scales and added vectors have. The result has
-- it, too, except that for float8 and float4 it is bfloat16 and for int8 int32 (for `linear`,
-- FBGEMM makes int8 again). `_grouped_mm` multiplies each group of A's rows by a matrix of B (or
-- A's matrices by columns of B; or pieces along k), divided equally, since it is not recorded how.
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
        bare_name LIKE '%group%' OR bare_name LIKE '%moe%' AS is_grouped,
        CASE WHEN is_added OR bare_name = '_C::cutlass_moe_mm' THEN 2 ELSE 1 END AS a_at,
        tensors[a_at] AS a,
        tensors[a_at + 1] AS b,
        CASE WHEN is_added THEN tensors[1] END AS added
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name,
            'mm|addmm|bmm|baddbmm|addbmm|matmul|linear|mv|addmv'
            || '|_addmm_activation|_int_mm|_scaled_mm(_v2)?|_(scaled_)?grouped_mm(_v2)?'
            || '|_C::cutlass_moe_mm|primus_turbo(_cpp_extension)?::grouped_gemm(_impl)?'
            || '|fbgemm::(bf16bf16bf16|f8f8bf16_rowwise)_grouped_stacked'
        )
),

sized AS (
    SELECT
        *,
        is_grouped AND (len(a.dims) = 2 OR len(b.dims) = 2) AS is_divided,
        a.dims[-1] AS depth,
        concrete_inputs ->> b.argument = 'same memory as an earlier argument' AS is_square,
        CASE
            WHEN is_linear THEN b.dims[1]
            WHEN is_grouped AND b.dims[-2] <> depth THEN b.dims[-2]
            WHEN len(b.dims) >= 2 THEN b.dims[-1]
            ELSE 1
        END AS width,
        -- Groups, but for those that cannot have a row.
        CASE
            WHEN is_divided AND len(b.dims) = 3 THEN least(b.dims[1], a.dims[1])
            WHEN is_divided AND len(a.dims) = 3 THEN least(a.dims[1], width)
            WHEN is_divided THEN (prediction.vector_after(tensors, b.argument)).dims[1]
            WHEN len(b.dims) <= 2 OR is_linear THEN 1
            WHEN len(a.dims) > 2 THEN list_product(a.dims[:-3])
            ELSE list_product(b.dims[:-3])
        END::BIGINT AS batch
    FROM operand
    WHERE a.dims[-1] > 0
),

measured AS (
    SELECT
        *,
        CASE
            WHEN is_divided AND len(a.dims) = len(b.dims) THEN greatest(round(depth / batch), 1)
            ELSE depth
        END::BIGINT AS k,
        round(width / CASE WHEN is_divided AND len(a.dims) = 3 THEN batch ELSE 1 END)::BIGINT AS n,
        CASE
            WHEN is_linear THEN 'linear'
            WHEN batch > 1 THEN CASE WHEN is_added THEN 'baddbmm' ELSE 'bmm' END
            WHEN is_added THEN 'addmm'
            ELSE 'mm'
        END AS op,
        CASE
            WHEN is_divided AND len(b.dims) = 3 THEN round(a.dims[1] / batch)
            WHEN is_divided THEN a.dims[-2]
            ELSE TRY(
                a.elements // depth // (CASE WHEN len(a.dims) > 2 THEN batch ELSE 1 END)
            )
        END::BIGINT AS m
    FROM sized
    WHERE NOT is_divided OR batch > 0
),

problem AS (
    SELECT
        * EXCLUDE (input_bytes, element_bytes),
        a.element.size AS element_bytes,
        a.element.name AS dtype,
        a.element.unit AS unit,
        CASE
            WHEN is_divided
                THEN CASE dtype WHEN 'float4' THEN 4 ELSE 2 END
                * a.dims[-2]::DOUBLE * width * depth
        END AS flops,
        -- A batched GEMM usually adds matrices, others a vector.
        CASE
            WHEN is_divided THEN
                a.size * (CASE WHEN len(a.dims) = 3 THEN batch / a.dims[1] ELSE 1 END)
                + b.size * (CASE WHEN len(b.dims) = 3 THEN batch / b.dims[1] ELSE 1 END)
            WHEN TRY((added.elements >= batch * m * n) <> (op = 'baddbmm'))
                THEN a.size + b.size + CASE op WHEN 'baddbmm' THEN 0 ELSE added.size END
            WHEN added IS NULL AND is_square THEN a.size
        END::BIGINT AS input_bytes,
        try_cast(CASE
            WHEN is_divided
                THEN a.dims[-2]::DOUBLE * width * greatest(a.element.size, 2)
                * (CASE WHEN len(a.dims) = len(b.dims) THEN batch ELSE 1 END)
            WHEN a.element.size = 1 THEN result_bytes
        END AS BIGINT) AS output_bytes,
        is_dtype_known AND a.element.size IN (2, 4) AND NOT is_divided AS is_exact
    FROM measured
    WHERE n IS NOT NULL
)

SELECT
    op_id, run_id, trace_id, 'gemm' AS family, op, dtype,
    coalesce(batch, 1) AS batch,
    m, n, k, input_bytes, output_bytes, unit,
    coalesce(
        flops,
        CASE WHEN dtype LIKE 'complex%' THEN 8 WHEN dtype = 'float4' THEN 4 ELSE 2 END
        * coalesce(batch, 1)::DOUBLE * m * n * k
    ) AS flops,
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
