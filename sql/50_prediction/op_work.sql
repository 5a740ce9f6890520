-- Work of the ops that launch GPU work: arithmetic and bytes, from shapes alone. What a
-- machine would take a minute and more for (2^56 FLOP or B) is no work but a wrong shape.
-- One row per op of a known family and known shape.
-- Key: op_id.
CREATE TABLE prediction.op_work (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Family.
    family,
    -- Units that do the arithmetic: `fp32`, `tf32` or `half` (`prediction.hardware`).
    unit,
    -- [FLOP] Arithmetic.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Elements written.
    written_elements,
    -- Steps that wait for each other: log2 of the ranks for collectives, else 1.
    steps,
    -- Whether sizes and types of all that counts were recorded.
    is_exact
) AS
WITH
counted AS (
    SELECT op_id, run_id, trace_id, flops, read_bytes, written_bytes, true AS is_exact
    FROM prediction.op_gemm
    UNION ALL
    SELECT op_id, run_id, trace_id, flops, read_bytes, written_bytes, is_exact
    FROM prediction.op_convolution
    UNION ALL
    SELECT op_id, run_id, trace_id, flops, read_bytes, written_bytes, true
    FROM prediction.op_attention
    UNION ALL
    SELECT op_id, run_id, trace_id, flops, read_bytes, written_bytes, true
    FROM prediction.op_embedding
    UNION ALL
    SELECT op_id, run_id, trace_id, flops, read_bytes, written_bytes, is_exact
    FROM prediction.op_embedding_bag
    UNION ALL
    SELECT op_id, run_id, trace_id, flops, read_bytes, written_bytes, is_exact
    FROM prediction.op_movement
)

-- Elementwise ops that broadcast, and copies that change no type (were they contiguous,
-- they would be a memcpy), address element by element; casts are elementwise.
-- PyTorch's defaults: fp32 convolutions may use TF32, fp32 products may not.
SELECT
    op_id,
    run_id,
    trace_id,
    CASE
        WHEN
            family = 'elementwise'
            AND list_bool_or(
                [t.elements > 1 AND t.elements < broadcast_elements for t in tensors]
            )
            THEN 'broadcast'
        WHEN rule = 'copy' AND read_bytes <> written_bytes THEN 'elementwise'
        ELSE family
    END,
    CASE
        WHEN rule NOT IN ('product', 'convolution', 'attention') THEN 'fp32'
        WHEN element_bytes <= 2 THEN 'half'
        WHEN rule = 'convolution' THEN 'tf32'
        ELSE 'fp32'
    END,
    flops,
    read_bytes,
    written_bytes,
    written_bytes // element_bytes,
    1.0 AS steps,
    is_exact
    AND is_dtype_known
    -- fp64 and fp8 have rates of their own.
    AND (rule NOT IN ('product', 'convolution', 'attention') OR element_bytes IN (2, 4))
FROM counted
INNER JOIN prediction.op_shape USING (op_id, run_id, trace_id)
INNER JOIN prediction.op_kind USING (name)
WHERE
    flops BETWEEN 0 AND 72_057_594_037_927_936
    AND read_bytes BETWEEN 0 AND 72_057_594_037_927_936
    AND written_bytes BETWEEN 0 AND 72_057_594_037_927_936
UNION ALL
SELECT
    op_id,
    run_id,
    trace_id,
    'collective',
    'fp32',
    0,
    sent_bytes,
    0,
    0,
    greatest(log2(rank_count), 1),
    false -- which links join the ranks is not recorded
FROM prediction.op_collective;
