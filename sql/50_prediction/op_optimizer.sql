-- Optimizer steps over all parameters, fused or on lists: `tensors` of them, `elements` in
-- total. Parameters, gradients and states are read; all but the gradients are written. In a
-- trace, the lists show how many are read; for `_foreach_` one is written.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_optimizer (
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
    -- Parameters.
    tensors,
    -- Elements of all of them.
    elements,
    -- Lists of tensors that are read.
    inputs,
    -- Lists that are written.
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
        prediction.first_list(tensors) AS parameters,
        list_sum([t.elements for t in parameters])::BIGINT AS elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'optimizer'
),

-- Step counters are lists, too, with one element per tensor.
problem AS (
    SELECT
        * REPLACE (len(parameters) AS tensors),
        model_dtype AS dtype,
        round(input_bytes / nullif(first_bytes, 0))::BIGINT AS inputs,
        CASE
            WHEN regexp_matches(op, 'norm|found_inf|non_finite') THEN 0
            WHEN op LIKE 'fused_%' THEN greatest(inputs - 1, 1)
            ELSE 1
        END AS outputs,
        is_dtype_known AS is_exact
    FROM shape
)

-- Read, written and computed for each element: sgd p -= r g; momentum b = m b + g first;
-- adagrad s += g g, p -= r g / (sqrt(s) + e); adam both moments (3 and 4), the root, its
-- correction and e (3), and p -= r m / d (3); adamw shrinks p before.
SELECT
    op_id, run_id, trace_id, 'optimizer' AS family, op, dtype,
    coalesce(tensors, 1) AS tensors,
    elements,
    coalesce(inputs, usual[1]) AS inputs,
    coalesce(outputs, usual[2]) AS outputs,
    elements::DOUBLE * usual[3] AS flops,
    try_cast(elements::DOUBLE * element_bytes * coalesce(inputs, usual[1]) AS BIGINT)
    AS read_bytes,
    try_cast(elements::DOUBLE * element_bytes * coalesce(outputs, usual[2]) AS BIGINT)
    AS written_bytes,
    is_exact
FROM (
    SELECT
        *,
        CASE regexp_replace(op, '^fused_', '')
            WHEN 'sgd' THEN [2, 1, 2]
            WHEN 'momentum' THEN [3, 2, 4]
            WHEN 'adagrad' THEN [3, 2, 7]
            WHEN 'adam' THEN [4, 3, 13]
            WHEN 'adamw' THEN [4, 3, 14]
            ELSE [2, 1, coalesce(element_flops, 1)]
        END AS usual
    FROM problem
);
