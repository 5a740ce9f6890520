-- Work of convolutions: X is the input, W [out channels, in channels per group, ..] the
-- weight, Y the output. FLOPs 2 |Y| |W| / out channels for the forward pass and for each
-- of the two gradients (of a transposed convolution |X| for |Y|); reads two of X, W and Y
-- and writes the third. The size of Y is that of its gradient or of the result; else it
-- follows from stride and padding; else from a convolution of the same X and W in the
-- trace whose gradient is recorded; else it is taken to be that of X (is_exact is false).
-- One row per convolution of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_convolution (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Elements of Y.
    output_elements,
    -- Passes that it makes: 1, or 2 where it computes both gradients.
    passes,
    -- [FLOP] Multiplications and additions.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether the size of Y is known.
    is_exact
) AS
WITH
operand AS (
    SELECT
        *,
        CASE name WHEN 'aten::convolution_backward' THEN tensors[2] ELSE tensors[1] END AS x,
        CASE WHEN name LIKE '%backward%' THEN tensors[3] ELSE tensors[2] END AS w,
        CASE
            WHEN name = 'aten::convolution_backward' THEN tensors[1]
            WHEN name LIKE '%backward%' THEN tensors[2]
        END.elements AS gradient_elements,
        name NOT LIKE '%backward%' AS writes_y,
        name LIKE '%backward_input' OR (
            name = 'aten::convolution_backward'
            AND coalesce(concrete_inputs ->> -1 NOT LIKE '[False%', true)
        ) AS writes_x,
        name LIKE '%backward_weight' OR name = 'aten::convolution_backward' AS writes_w,
        CASE
            WHEN name LIKE '%cudnn_convolution' THEN 2
            WHEN name LIKE '%miopen_convolution' THEN 3
        END AS padding_place,
        CASE WHEN name LIKE '%cudnn_convolution' THEN 3 ELSE 4 END AS stride_place
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'convolution' AND is_complete
),

seen AS (
    SELECT trace_id, x.dims AS x_dims, w.dims AS w_dims, max(gradient_elements) AS elements
    FROM operand
    WHERE gradient_elements IS NOT NULL
    GROUP BY trace_id, x_dims, w_dims
),

strided AS (
    SELECT
        op_id,
        product(
            (size + 2 * padding - dilation * (extent - 1) - 1) // stride + 1
        ) * any_value(images) AS elements
    FROM (
        SELECT
            op_id,
            x.dims[1] * w.dims[1] AS images,
            unnest(x.dims[3:]) AS size,
            unnest(w.dims[3:]) AS extent,
            unnest(from_json(concrete_inputs ->> padding_place, '["BIGINT"]')) AS padding,
            unnest(from_json(concrete_inputs ->> stride_place, '["BIGINT"]')) AS stride,
            unnest(from_json(concrete_inputs ->> (stride_place + 1), '["BIGINT"]')) AS dilation
        FROM operand
        WHERE concrete_inputs IS NOT NULL AND padding_place IS NOT NULL
    )
    GROUP BY op_id
),

measured AS (
    SELECT
        operand.*,
        coalesce(
            gradient_elements, operand.results[1].elements, strided.elements, seen.elements
        ) AS known_elements,
        CASE
            WHEN regexp_matches(name, 'transpose') THEN x.elements
            ELSE coalesce(known_elements, x.elements // x.dims[2] * w.dims[1])
        END::BIGINT AS output_elements,
        (output_elements * element_bytes)::BIGINT AS y_bytes,
        writes_y::BIGINT + writes_x::BIGINT + writes_w::BIGINT AS passes
    FROM operand
    LEFT JOIN strided USING (op_id)
    LEFT JOIN seen
        ON operand.trace_id = seen.trace_id AND x.dims = x_dims AND w.dims = w_dims
    WHERE len(x.dims) >= 3 AND len(w.dims) >= 3
),

written AS (
    SELECT
        * EXCLUDE (result_bytes),
        (
            (CASE WHEN writes_y THEN y_bytes ELSE 0 END)
            + (CASE WHEN writes_x THEN x.size ELSE 0 END)
            + (CASE WHEN writes_w THEN w.size ELSE 0 END)
        )::BIGINT AS result_bytes
    FROM measured
)

SELECT
    op_id,
    run_id,
    trace_id,
    output_elements,
    passes,
    2 * passes * output_elements * (w.elements // w.dims[1]),
    passes * (x.size + w.size + y_bytes) - result_bytes,
    result_bytes,
    known_elements IS NOT NULL
FROM written;
