-- Ops on sparse tensors, such as an optimizer's update with the gradient of an embedding table.
-- The profiler records the size of the dense tensor; what the op touches are the stored values.
-- It asks for these (`aten::_values`), and then for their type (`aten::to`), with their size. An
-- op in place, such as `aten::add_`, may be around the one that does so.
-- One row per op on a sparse tensor.
-- Key: op_id.
CREATE TABLE prediction.sparse_op (
    -- The op.
    op_id,
    -- The trace.
    trace_id,
    -- Dimensions of the values, as a JSON list; NULL if not recorded.
    value_dims
) AS
WITH
asking AS (
    SELECT trace_id, parent_op_id AS op_id, min(start_ns) AS asked_ns
    FROM staging.op
    WHERE name = 'aten::_values' AND parent_op_id IS NOT NULL
    GROUP BY ALL
),

known AS (
    SELECT
        asking.trace_id,
        op_id,
        arg_min(
            inside.input_dims -> '$[0]',
            inside.start_ns
        ) FILTER (json_array_length(inside.input_dims, '$[0]') > 0) AS first_dims,
        any_value(op.input_dims -> '$[0]') AS dense_dims,
        -- What has the size of the dense tensor is not the values.
        CASE
            WHEN json_array_length(dense_dims) > 0 AND first_dims <> dense_dims THEN first_dims
        END AS value_dims
    FROM asking
    INNER JOIN staging.op AS op USING (op_id)
    LEFT JOIN staging.op AS inside
        ON
            op_id = inside.parent_op_id
            AND inside.name = 'aten::to'
            AND inside.start_ns > asked_ns
    GROUP BY asking.trace_id, op_id
)

SELECT op_id, trace_id, value_dims::VARCHAR
FROM known
UNION ALL
SELECT around.op_id, around.trace_id, value_dims::VARCHAR
FROM known
INNER JOIN staging.op AS inside USING (op_id)
INNER JOIN staging.op AS around
    ON inside.parent_op_id = around.op_id AND inside.name || '_' = around.name
ANTI JOIN asking ON around.op_id = asking.op_id;
