-- Elements selected by index or by position: `rows` rows of `width` elements are read and
-- written. `index` and `index_put` have an 8-byte index for each row, `gather` and
-- `scatter` for each element; accumulation also reads its target. FBGEMM's ops pass each of
-- their tensors once.
-- One row per such op of known shape.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_index (
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
shape AS (
    SELECT
        * REPLACE (
            CASE
                WHEN regexp_matches(op, 'index_put') AND concrete_inputs ->> 3 IN ('True', '1')
                    THEN 'index_add'
                WHEN regexp_matches(op, 'index_put') THEN 'index_put'
                WHEN op = 'unsafe_index' THEN 'index'
                WHEN op = 'masked_scatter' OR op LIKE 'scatter%' AND op NOT LIKE '%add%'
                    THEN 'scatter'
                ELSE op
            END AS op
        ),
        tensors[1].dims AS dims,
        name LIKE 'fbgemm::%' AS is_moved
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (trace_id, name)
    WHERE is_complete AND rule = 'index'
),

measured AS (
    SELECT
        *,
        regexp_matches(op, '^scatter|index_(put|add|copy)') AS is_scattered,
        TRY(CASE
            WHEN op = 'index' AND len(results) > 0 AND len(tensors) > 1
                THEN results[1].elements // greatest(tensors[2].elements, 1)
            WHEN is_scattered THEN coalesce(tensors[-1].dims[-1], 1)
            ELSE coalesce(dims[-1], 1)
        END) AS width
    FROM shape
),

problem AS (
    SELECT
        * REPLACE (CASE WHEN is_moved THEN input_bytes END AS input_bytes),
        model_dtype AS dtype,
        TRY(CASE
            WHEN op = 'index' THEN tensors[2].elements
            WHEN is_scattered OR op IN ('gather', 'take', 'masked_select')
                THEN CASE WHEN len(tensors) > 1 THEN tensors[-1].elements // width END
            ELSE tensors[1].elements // width
        END) AS rows,
        CASE WHEN is_moved THEN coalesce(result_bytes, input_bytes) END AS output_bytes,
        is_dtype_known AS is_exact
    FROM measured
)

SELECT
    op_id, run_id, trace_id, 'index' AS family, op, dtype,
    rows,
    width,
    input_bytes,
    output_bytes,
    CASE WHEN op LIKE '%add' THEN rows::DOUBLE * width ELSE 0 END AS flops,
    coalesce(input_bytes, try_cast(
        rows::DOUBLE * width * element_bytes * CASE WHEN op LIKE '%add' THEN 2 ELSE 1 END
        + 8 * CASE
            WHEN op LIKE 'index%' THEN rows
            WHEN op IN ('gather', 'take') OR op LIKE 'scatter%' THEN rows::DOUBLE * width
            ELSE 0
        END AS BIGINT
    )) AS read_bytes,
    coalesce(output_bytes, try_cast(rows::DOUBLE * width * element_bytes AS BIGINT))
    AS written_bytes,
    is_exact
FROM problem;
