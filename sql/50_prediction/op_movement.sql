-- Work of the ops that are bound by the bytes they move, by rule. `in` are all tensors
-- among the arguments, `first` the first argument that has any, `out` the result: as
-- recorded, else as the rule says.
-- map: reads in, writes out (else what in broadcasts to). move: reads in, writes out (else
-- as much). list: reads in, writes out (else the first list). step: reads in, writes three
-- quarters of it (Adam: not the gradients). touch: each argument passes once. write: writes
-- first. copy: reads the last tensor, writes first. reduce: reads in, writes out (else
-- nothing). row: reads in and, for a second pass over each row, first again; writes first.
-- row_twice: reads in twice, writes first. pool: reads first, writes out (else a quarter).
-- gather: reads out and the indices, writes out (else an element per index). scatter: reads
-- the last tensor and what it changes, writes the latter.
-- One row per such op of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_movement (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- [FLOP] Arithmetic: that of the family per element of what it broadcasts to, or of in.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether the size of the result is known.
    is_exact
) AS
WITH
shape AS (
    SELECT
        *,
        tensors[-1].size AS last_bytes,
        CASE
            WHEN rule <> 'gather' OR result_bytes IS NOT NULL THEN result_bytes
            WHEN len(tensors) > 1 THEN tensors[2].elements * element_bytes
        END AS out_bytes
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE
        is_complete
        AND rule NOT IN ('product', 'convolution', 'attention', 'lookup', 'bag')
)

SELECT
    op_id,
    run_id,
    trace_id,
    TRY(element_flops * (
        CASE
            WHEN rule IN ('list', 'step', 'touch') THEN input_bytes // element_bytes
            ELSE broadcast_elements
        END
    )),
    CASE rule
        WHEN 'write' THEN 0
        WHEN 'copy' THEN last_bytes
        WHEN 'row' THEN input_bytes + first_bytes
        WHEN 'row_twice' THEN 2 * input_bytes
        WHEN 'pool' THEN first_bytes
        WHEN 'gather' THEN out_bytes + input_bytes - first_bytes
        WHEN 'scatter' THEN 2 * last_bytes
        ELSE input_bytes
    END::BIGINT,
    CASE rule
        WHEN 'map' THEN coalesce(out_bytes, broadcast_elements * element_bytes)
        WHEN 'move' THEN coalesce(out_bytes, input_bytes)
        WHEN 'list' THEN coalesce(out_bytes, first_bytes)
        WHEN 'step' THEN input_bytes * 3 // 4
        WHEN 'touch' THEN 0
        WHEN 'reduce' THEN coalesce(out_bytes, 0)
        WHEN 'pool' THEN coalesce(out_bytes, first_bytes // 4)
        WHEN 'gather' THEN out_bytes
        WHEN 'scatter' THEN last_bytes
        ELSE first_bytes
    END::BIGINT,
    out_bytes IS NOT NULL OR rule <> 'pool'
FROM shape
WHERE rule <> 'gather' OR out_bytes IS NOT NULL;
