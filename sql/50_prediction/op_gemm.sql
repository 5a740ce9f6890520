-- Work of matrix products: A is [.., m, k], B is [.., k, n] (of `linear` [n, k]). Where B
-- is one matrix, all rows of A are rows of one product; else each has its own.
-- FLOPs 2 m n k per matrix of the batch; reads A, B and what is added, writes the result.
-- One row per matrix product of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_gemm (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- What it is to the kernel models: `mm`, `addmm`, `bmm`, `baddbmm` or `linear`.
    op,
    -- Products.
    batch,
    -- Rows of A, in each.
    m,
    -- Columns of B.
    n,
    -- Length of the sums.
    k,
    -- [FLOP] Multiplications and additions.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes
) AS
WITH
operand AS (
    SELECT
        *,
        regexp_matches(name, '^aten::(_?add|baddbmm)') AS is_added,
        CASE WHEN is_added THEN tensors[2] ELSE tensors[1] END AS a,
        CASE WHEN is_added THEN tensors[3] ELSE tensors[2] END AS b,
        CASE
            WHEN is_added THEN tensors[1].size
            WHEN name = 'aten::linear' THEN coalesce(tensors[3].size, 0)
            ELSE 0
        END AS added_bytes
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'product' AND is_complete
),

measured AS (
    SELECT
        *,
        a.dims[-1] AS k,
        CASE
            WHEN name = 'aten::linear' THEN b.dims[1]
            WHEN len(b.dims) >= 2 THEN b.dims[-1]
            ELSE 1
        END AS n,
        CASE
            WHEN len(b.dims) <= 2 OR name = 'aten::linear' THEN 1
            WHEN len(a.dims) > 2 THEN list_product(a.dims[:-3])
            ELSE list_product(b.dims[:-3])
        END::BIGINT AS batch
    FROM operand
)

SELECT
    op_id,
    run_id,
    trace_id,
    CASE
        WHEN name = 'aten::linear' THEN 'linear'
        WHEN batch > 1 THEN CASE WHEN is_added THEN 'baddbmm' ELSE 'bmm' END
        WHEN is_added THEN 'addmm'
        ELSE 'mm'
    END,
    batch,
    TRY(a.elements // k // (CASE WHEN len(a.dims) > 2 THEN batch ELSE 1 END)),
    n,
    k,
    TRY(2 * a.elements * n) AS flops,
    (a.size + b.size + added_bytes)::BIGINT,
    TRY(a.elements // k * n * element_bytes)
FROM measured
WHERE k > 0 AND n IS NOT NULL;
