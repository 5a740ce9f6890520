-- Sums, means and losses: each of `rows` rows of `width` elements becomes one number. The
-- number of rows is that of the results; for a summed loss, one. All rows are read, for a
-- loss those of two tensors. If the reduced dimensions are not recorded, the result is
-- ignored.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_reduction (
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
    -- Rows; NULL if the reduced dimensions are not recorded.
    rows,
    -- Elements per row.
    width,
    -- Elements of all rows, if these are unknown; otherwise NULL.
    elements,
    -- [B] Total bytes written, if the sizes do not determine them; otherwise NULL.
    output_bytes,
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
