-- Work of FBGEMM's lookups in several tables at once, summed per bag. Forward: `rows` rows
-- of `width` elements (the mean of the tables: elements of the result per bag) are read
-- with 8-byte indices and offsets, and one row per bag is written. Backward, where the
-- profiler records the gradient of the result only: it is read, and one row per bag (if
-- bags hold more, that is too few) is read and written.
-- One row per such op of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_bag (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Rows that are looked up; NULL where it is not recorded.
    rows,
    -- Mean elements of a row; NULL where it is not recorded.
    width,
    -- [FLOP] Additions into sums.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether rows and width are recorded.
    is_exact
) AS
WITH
bag AS (
    SELECT
        *,
        family = 'embedding_bag_backward' AS is_backward,
        CASE WHEN name LIKE '%dense_embedding%' THEN 7 ELSE 11 END AS index_place,
        coalesce(results[1], tensors[1]).elements AS result_elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'bag' AND is_complete
),

counted AS (
    SELECT
        *,
        CASE WHEN NOT is_backward THEN
            [t for t in tensors if t.argument = index_place][1].elements
        END AS rows,
        CASE WHEN NOT is_backward THEN
            [t for t in tensors if t.argument = index_place + 1][1].elements - 1
        END AS bags,
        result_elements / nullif(bags, 0) AS width
    FROM bag
    WHERE is_backward OR result_bytes > 0
),

sized AS (
    SELECT
        *,
        (coalesce(rows * width, result_elements) * element_bytes)::BIGINT AS row_bytes,
        result_elements * element_bytes AS written_bytes
    FROM counted
    WHERE is_backward OR width IS NOT NULL
)

SELECT
    op_id,
    run_id,
    trace_id,
    rows,
    width,
    row_bytes // element_bytes,
    row_bytes + CASE WHEN is_backward THEN written_bytes ELSE 8 * (rows + bags + 1) END,
    written_bytes,
    NOT is_backward
FROM sized;
