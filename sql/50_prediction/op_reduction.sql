-- Sums, means and losses: each of `rows` rows of `width` elements becomes one number. As
-- many rows as results; of a loss that is summed, one. All rows are read, of a loss those
-- of two tensors. Where it is not recorded what is summed, the result is left out.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_reduction (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Rows; NULL where it is not recorded what is summed.
    rows,
    -- Elements of a row.
    width,
    -- Elements of all rows, where these are not known; else NULL.
    elements,
    -- [B] All that it writes, where the sizes do not say it; else NULL.
    output_bytes,
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
shape AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(name, 'norm$') THEN concrete_inputs ->> 2
            ELSE concrete_inputs ->> 1
        END AS along,
        prediction.elements_along(tensors[1].dims, along) AS along_elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'reduction'
),

measured AS (
    SELECT
        *,
        tensors[1].elements AS elements,
        TRY(CASE
            WHEN op LIKE '%loss%' AND op NOT LIKE 'nll%' THEN elements
            WHEN op LIKE '%loss%' THEN tensors[1].dims[-1]
            WHEN len(results) > 0 THEN elements // greatest(results[1].elements, 1)
            WHEN concrete_inputs IS NOT NULL THEN coalesce(along_elements, elements)
        END) AS width
    FROM shape
),

problem AS (
    SELECT
        * REPLACE (CASE WHEN width IS NULL THEN elements END AS elements),
        model_dtype AS dtype,
        TRY(tensors[1].elements // width) AS rows,
        result_bytes AS output_bytes,
        is_dtype_known AS is_exact
    FROM measured
)

SELECT
    op_id, run_id, trace_id, 'reduction' AS family, op, dtype,
    rows,
    width,
    elements,
    output_bytes,
    coalesce(rows::DOUBLE * width, elements) * coalesce(element_flops, 1) AS flops,
    try_cast(
        coalesce(rows::DOUBLE * width, elements) * element_bytes * CASE
            WHEN
                regexp_full_match(
                    op, '(mse|smooth_l1|l1|huber)_loss|kl_div|dot'
                    || '|binary_cross_entropy(_with_logits)?'
                )
                THEN 2
            ELSE 1
        END AS BIGINT
    ) AS read_bytes,
    coalesce(output_bytes, try_cast(rows::DOUBLE * element_bytes AS BIGINT), 0) AS written_bytes,
    is_exact
FROM problem;
