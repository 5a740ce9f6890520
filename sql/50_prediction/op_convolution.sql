-- Work of convolutions: X is the input, W [out channels, in channels per group, ..] the
-- weight, Y the output. FLOPs 2 |Y| |W| / out channels for the forward pass and for each
-- of the two gradients (of a transposed convolution |X| for |Y|); reads two of X, W and Y
-- and writes the third. The size of Y is that of its gradient or of the result; else it
-- follows from stride and padding; else from a convolution of the same X and W in the
-- trace whose gradient is recorded; else it is taken to be that of X (is_exact is false).
-- Where stride and padding are not recorded, they are the least that make such an Y.
-- One row per convolution of known shape.
-- Key: op_id.
CREATE VIEW prediction.op_convolution (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Whether it computes Y.
    writes_y,
    -- Whether it computes the gradient of X.
    writes_x,
    -- Whether it computes the gradient of W.
    writes_w,
    -- Sizes of X: images, channels, rows and columns (1 row, where it has no rows).
    input_dims,
    -- Sizes of W: channels out, channels in per group, rows and columns.
    weight_dims,
    -- Stride; NULL if unknown, as the next ones.
    stride,
    -- Padding.
    padding,
    -- Dilation.
    dilation,
    -- Whether it is a transposed one.
    is_transposed,
    -- Elements of Y.
    output_elements,
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
-- At which places of its arguments an op has padding, stride and dilation.
operand AS (
    SELECT
        *,
        tensors[CASE name WHEN 'aten::convolution_backward' THEN 2 ELSE 1 END] AS x,
        tensors[CASE WHEN name LIKE '%backward%' THEN 3 ELSE 2 END] AS w,
        CASE
            WHEN name = 'aten::convolution_backward' THEN tensors[1]
            WHEN name LIKE '%backward%' THEN tensors[2]
        END AS gradient,
        name NOT LIKE '%backward%' AS writes_y,
        name LIKE '%backward_input' OR (
            name = 'aten::convolution_backward'
            AND coalesce(concrete_inputs ->> -1 NOT LIKE '[False%', true)
        ) AS writes_x,
        name LIKE '%backward_weight' OR name = 'aten::convolution_backward' AS writes_w,
        regexp_matches(name, 'transpose') AS is_transposed,
        CASE
            WHEN is_transposed THEN [2, 4, 5]
            WHEN regexp_matches(name, 'cudnn_convolution$') THEN [2, 3, 4]
            WHEN regexp_matches(name, 'miopen_.*convolution$') THEN [3, 4, 5]
            WHEN regexp_matches(name, 'convolution_backward$|_depthwise2d$') THEN [5, 4, 6]
            WHEN NOT writes_x AND NOT writes_w THEN [4, 3, 5]
        END AS ordinals,
        [
            try_cast(concrete_inputs ->> ordinal AS BIGINT []) for ordinal in ordinals
        ] AS recorded
    FROM prediction.op_shape
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule = 'convolution' AND is_complete
),

seen AS (
    SELECT
        trace_id,
        x.dims AS x_dims,
        w.dims AS w_dims,
        max({'elements': gradient.elements, 'rows': gradient.dims[3]}) AS y
    FROM operand
    WHERE gradient IS NOT NULL
    GROUP BY trace_id, x_dims, w_dims
),

strided AS (
    SELECT
        op_id,
        product(
            TRY((size + 2 * padding - dilation * (extent - 1) - 1) // stride + 1)
        ) * any_value(images) AS elements
    FROM (
        SELECT
            op_id,
            TRY(x.dims[1] * w.dims[1]) AS images,
            unnest(x.dims[3:]) AS size,
            unnest(w.dims[3:]) AS extent,
            unnest(recorded[1]) AS padding,
            unnest(recorded[2]) AS stride,
            unnest(recorded[3]) AS dilation
        FROM operand
        WHERE writes_y AND NOT is_transposed
    )
    GROUP BY op_id
),

measured AS (
    SELECT
        operand.*,
        coalesce(
            gradient.elements, operand.results[1].elements, strided.elements, y.elements
        ) AS known_elements,
        TRY(CASE
            WHEN is_transposed THEN x.elements
            ELSE coalesce(known_elements, x.elements // x.dims[2] * w.dims[1])
        END::BIGINT) AS output_elements,
        TRY(output_elements * element_bytes) AS y_bytes,
        writes_y::BIGINT + writes_x::BIGINT + writes_w::BIGINT AS passes,
        -- The least stride that leaves so many rows, and the least padding with it.
        coalesce(gradient.dims[3], operand.results[1].dims[3], y.rows) AS rows,
        TRY(greatest(ceil((x.dims[3] - w.dims[3] + 1) / rows), 1)::BIGINT) AS least_stride,
        TRY(greatest(ceil(((rows - 1) * least_stride + w.dims[3] - x.dims[3]) / 2), 0)::BIGINT)
        AS least_padding,
        NOT is_transposed
        AND TRY((x.dims[3] + 2 * least_padding - w.dims[3]) // least_stride + 1) = rows
        AS is_inferred
    FROM operand
    LEFT JOIN strided USING (op_id)
    LEFT JOIN seen
        ON operand.trace_id = seen.trace_id AND x.dims = x_dims AND w.dims = w_dims
    WHERE len(x.dims) >= 3 AND len(w.dims) >= 3
),

written AS (
    SELECT
        * EXCLUDE (result_bytes),
        TRY((
            (CASE WHEN writes_y THEN y_bytes ELSE 0 END)
            + (CASE WHEN writes_x THEN x.size ELSE 0 END)
            + (CASE WHEN writes_w THEN w.size ELSE 0 END)
        )::BIGINT) AS result_bytes
    FROM measured
)

SELECT
    op_id,
    run_id,
    trace_id,
    writes_y,
    writes_x,
    writes_w,
    CASE len(x.dims) WHEN 3 THEN x.dims[:2] || [1] || x.dims[3:] ELSE x.dims END,
    CASE len(w.dims) WHEN 3 THEN w.dims[:2] || [1] || w.dims[3:] ELSE w.dims END,
    coalesce(recorded[2][1], CASE WHEN is_inferred THEN least_stride END),
    coalesce(recorded[1][1], CASE WHEN is_inferred THEN least_padding END),
    coalesce(recorded[3][1], CASE WHEN is_inferred THEN 1 END),
    is_transposed,
    output_elements,
    TRY(2 * passes * output_elements * (w.elements // w.dims[1])),
    TRY(passes * (x.size + w.size + y_bytes) - result_bytes),
    result_bytes,
    known_elements IS NOT NULL
FROM written;
