-- Cumulative sums and sorts: `rows` rows of `width` elements along one dimension are read,
-- and as many are written; ops that also return positions (sort, topk, cummax) write an
-- 8-byte index each, and argsort nothing else. Sorts count as log2(width) comparisons per
-- element, others as one operation. For `topk`, `outputs` is what is kept of a row.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_scan (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Rows.
    rows,
    -- Elements per row.
    width,
    -- Elements of a row that are written; NULL: all.
    outputs,
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
shape AS (
    SELECT
        *,
        bare_name AS op,
        -- `sort.stable` and `topk` have another argument before the dimension.
        concrete_inputs ->> CASE WHEN bare_name = 'topk' THEN 2 ELSE 1 END AS along
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name, 'cumsum|cumprod|cummax|cummin|logcumsumexp|sort|msort|argsort|topk'
        )
),

problem AS (
    SELECT
        *,
        model_dtype AS dtype,
        coalesce(
            prediction.elements_along(tensors[1].dims, along), tensors[1].dims[-1]
        ) AS width,
        TRY(tensors[1].elements // width) AS rows,
        CASE op WHEN 'topk' THEN try_cast(concrete_inputs ->> 1 AS BIGINT) END AS outputs,
        is_dtype_known AS is_exact
    FROM shape
)

SELECT
    op_id, run_id, trace_id, 'scan' AS family, op, dtype,
    rows,
    width,
    outputs,
    rows::DOUBLE * width * CASE
        WHEN op IN ('sort', 'msort', 'argsort', 'topk') THEN log2(greatest(width, 2))
        ELSE 1
    END AS flops,
    try_cast(rows::DOUBLE * width * element_bytes AS BIGINT) AS read_bytes,
    try_cast(
        rows::DOUBLE * coalesce(outputs, width) * CASE
            WHEN op = 'argsort' THEN 8
            WHEN op IN ('sort', 'topk', 'cummax', 'cummin') THEN element_bytes + 8
            ELSE element_bytes
        END AS BIGINT
    ) AS written_bytes,
    is_exact
FROM problem;
