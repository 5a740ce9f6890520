-- Work of matrix products: A is [.., m, k], B is [.., k, n] (of `linear` [n, k]).
-- FLOPs 2 m n k per matrix of the batch; reads A, B and what is added, writes the result.
-- One row per matrix product of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_product (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Matrices, with the rows of each, of A: batch times m.
    rows,
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
        name LIKE 'aten::add%' OR name LIKE 'aten::_add%' OR name = 'aten::baddbmm' AS is_added,
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
        END AS n
    FROM operand
)

SELECT
    op_id,
    run_id,
    trace_id,
    a.elements // k AS rows,
    n,
    k,
    2 * a.elements * n AS flops,
    (a.size + b.size + added_bytes)::BIGINT,
    (a.elements // k * n * element_bytes)::BIGINT
FROM measured
WHERE k > 0 AND n IS NOT NULL;
