-- Ops that treat each element independently: arithmetic, activations, casts, dropout; fills
-- and random tensors; generated kernels; pooling. Each input and output passes once. An
-- input that is smaller than the result is read again (family `broadcast`) and excluded,
-- unless its size is recorded. A dropout's mask and results of comparisons have one byte
-- per element. FLOPs are those of `prediction.op_family` per element written.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_elementwise (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `elementwise`, `broadcast`, `fill`, `random`, `fused` or `pooling`.
    family,
    -- Op of the family.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Elements written.
    elements,
    -- Tensors read.
    inputs,
    -- Tensors written.
    outputs,
    -- [B] Total bytes read, if the sizes do not determine them; otherwise NULL.
    input_bytes,
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
-- A copy that changes the type is a cast; one that does not is `prediction.op_copy`.
shape AS (
    SELECT
        *,
        rule = 'copy' AS is_cast,
        family IN ('fill', 'random') AND op NOT LIKE '%backward' AS is_filled,
        coalesce(results[1].elements, broadcast_elements) AS result_elements,
        list_bool_or(
            [t.elements > 1 AND t.elements < broadcast_elements for t in tensors]
        ) AS is_broadcast,
        -- Whether tensors differ in size or type, or are expanded, so that their number does
        -- not determine the bytes.
        is_broadcast OR list_bool_or(
            [t.elements > 1 AND t.distinct <> t.elements * element_bytes for t in tensors]
        ) AS is_mixed
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE
        is_complete
        AND (
            rule = 'elementwise'
            OR rule = 'copy' AND regexp_matches(op, 'copy|clone|contiguous')
            AND tensors[-1].size <> first_bytes
        )
),

problem AS (
    SELECT
        * REPLACE (
            CASE
                WHEN is_cast THEN 'elementwise'
                WHEN family = 'elementwise' AND is_broadcast THEN 'broadcast'
                ELSE family
            END AS family,
            CASE
                WHEN family IN ('fill', 'fused') THEN family
                WHEN is_cast THEN 'cast'
                WHEN op = 'dropout' THEN 'native_dropout'
                ELSE op
            END AS op,
            CASE
                WHEN is_cast THEN tensors[-1].distinct
                WHEN is_filled THEN NULL
                WHEN family = 'pooling' AND op NOT LIKE '%backward' THEN first_bytes
                WHEN is_mixed THEN list_sum([t.distinct for t in tensors])::BIGINT
            END AS input_bytes,
            is_dtype_known AND (family <> 'pooling' OR result_bytes IS NOT NULL) AS is_exact
        ),
        model_dtype AS dtype,
        CASE
            WHEN is_filled
                THEN list_sum([t.elements for t in prediction.first_list(tensors)])
            WHEN is_cast THEN tensors[1].elements
            ELSE result_elements
        END AS elements,
        CASE
            WHEN is_filled THEN 0
            WHEN is_cast THEN 1
            -- A generated kernel takes its results as arguments, too.
            WHEN family = 'fused' THEN greatest(len(tensors) - 1, 1)
            ELSE greatest(len([t for t in tensors if t.elements > 1 OR result_elements <= 1]), 1)
        END AS inputs,
        CASE WHEN op LIKE '%dropout' THEN 2 ELSE 1 END::BIGINT AS outputs,
        CASE
            WHEN is_cast THEN first_bytes
            WHEN family = 'fused' THEN CASE WHEN is_mixed THEN 0 END
            WHEN family = 'pooling' AND op NOT LIKE '%backward'
                THEN coalesce(result_bytes, first_bytes // 4)
            ELSE result_bytes
        END AS output_bytes
    FROM (SELECT *, true AS is_exact FROM shape)
)

SELECT
    op_id, run_id, trace_id, family, op, dtype,
    try_cast(elements AS BIGINT) AS elements,
    coalesce(inputs, 1) AS inputs,
    coalesce(outputs, 1) AS outputs,
    input_bytes,
    output_bytes,
    elements::DOUBLE * CASE op WHEN 'cast' THEN 0 ELSE coalesce(element_flops, 1) END AS flops,
    coalesce(input_bytes, try_cast(
        elements::DOUBLE * element_bytes
        * CASE family WHEN 'broadcast' THEN 1 ELSE coalesce(inputs, 1) END AS BIGINT
    ))::BIGINT AS read_bytes,
    coalesce(output_bytes, try_cast(
        elements::DOUBLE * CASE
            WHEN op = 'native_dropout' THEN element_bytes + coalesce(outputs, 1) - 1
            WHEN regexp_full_match(op, '(eq|ne|ge|gt|le|lt|is(finite|inf|nan)|logical_.*)')
                THEN 1
            -- To half the precision, or back.
            WHEN op = 'cast' THEN CASE WHEN element_bytes < 4 THEN 4 ELSE 2 END
            ELSE element_bytes * coalesce(outputs, 1)
        END AS BIGINT
    ))::BIGINT AS written_bytes,
    is_exact
FROM problem;
