-- Convolutions and their gradients: the sizes of the input X, the weight W and the output
-- Y. The size of Y is that of its gradient or of the result; otherwise it follows from
-- stride and padding; otherwise from a convolution of the same X and W in the trace;
-- otherwise it is assumed to be that of X (is_known is false). If stride and padding are
-- not recorded, they are the smallest that produce such a Y.
-- One row per convolution of known shape.
-- Key: op_id.
CREATE VIEW prediction.convolution_shape (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- What it computes: `y`, `x` (its gradient), `w`.
    written,
    -- Whether it is transposed.
    is_transposed,
    -- Sizes of X: images, channels, then the spatial dimensions.
    x,
    -- Sizes of W: output channels, input channels per group (transposed: input, output),
    -- and the spatial dimensions.
    w,
    -- Sizes of Y in the spatial dimensions.
    y,
    -- Stride; NULL if unknown, and so are the following ones.
    stride,
    -- Padding.
    padding,
    -- Dilation.
    dilation,
    -- Groups.
    groups,
    -- Whether the size of Y is known.
    is_known
) AS
WITH
-- Positions of padding, stride and dilation among an op's arguments.
operand AS (
    SELECT
        *,
        bare_name = 'convolution_backward' AS is_both,
        regexp_matches(bare_name, '^_?convolution$') AS is_any,
        name LIKE '%backward%' AS is_backward,
        tensors[is_both::BIGINT + 1] AS x,
        tensors[is_backward::BIGINT + 2] AS w,
        CASE WHEN is_backward THEN tensors[2 - is_both::BIGINT] END AS gradient,
        -- Position of `transposed`, before the padding of the output and the groups.
        CASE WHEN is_both THEN 7 WHEN is_any THEN 6 END AS transposed_at,
        regexp_matches(name, 'transpose')
        OR coalesce(concrete_inputs ->> transposed_at IN ('True', '1'), false) AS is_transposed,
        (CASE WHEN NOT is_backward THEN ['y'] ELSE [] END)
        || CASE
            WHEN
                name LIKE '%backward_input'
                OR is_both AND coalesce(concrete_inputs ->> -1 NOT LIKE '[False%', true)
                THEN ['x']
            ELSE []
        END
        || (CASE WHEN is_both OR name LIKE '%backward_weight' THEN ['w'] ELSE [] END)
        AS written,
        CASE
            WHEN is_transposed AND transposed_at IS NULL THEN [2, 4, 5]
            WHEN regexp_matches(name, 'cudnn_convolution$') THEN [2, 3, 4]
            WHEN regexp_matches(name, 'miopen_.*convolution$') THEN [3, 4, 5]
            WHEN regexp_matches(name, 'convolution_backward$|_depthwise2d$') THEN [5, 4, 6]
            WHEN NOT is_backward THEN [4, 3, 5]
        END AS ordinals,
        [try_cast(concrete_inputs ->> o AS BIGINT []) for o in ordinals] AS recorded,
        try_cast(concrete_inputs ->> coalesce(transposed_at + 1, 3) AS BIGINT [])
        AS output_padding,
        try_cast(concrete_inputs ->> coalesce(transposed_at + 2, 6) AS BIGINT) AS own_groups
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name,
            '_?(thnn_|slow_|cudnn_|miopen_|mkldnn_|mps_|depthwise_)*'
            || 'conv(olution|_(transpose|dilated|depthwise))?([123]d)?'
            || '(_(transpose|relu|add_relu|overrideable|forward|backward|input|weight))*'
        )
),

seen AS (
    SELECT trace_id, x.dims AS x_dims, w.dims AS w_dims, max(gradient.dims) AS y_dims
    FROM operand
    WHERE gradient IS NOT NULL
    GROUP BY ALL
),

sized AS (
    SELECT
        operand.*,
        coalesce(gradient.dims[3:], operand.results[1].dims[3:], TRY(CASE
            WHEN recorded[2][1] IS NULL THEN NULL
            WHEN is_transposed
                THEN list_transform(x.dims[3:], lambda size, i: (
                    (size - 1) * recorded[2][i] - 2 * recorded[1][i]
                    + recorded[3][i] * (w.dims[i + 2] - 1) + 1
                    + coalesce(output_padding[i], 0)
                ))
            ELSE list_transform(x.dims[3:], lambda size, i: (
                (size + 2 * recorded[1][i] - recorded[3][i] * (w.dims[i + 2] - 1) - 1)
                // recorded[2][i] + 1
            ))
        END), y_dims[3:]) AS y,
        -- The smallest stride that leaves so many rows, and the smallest padding with it.
        TRY(greatest(ceil((x.dims[3] - w.dims[3] + 1) / y[1]), 1)::BIGINT) AS least_stride,
        TRY(greatest(ceil(((y[1] - 1) * least_stride + w.dims[3] - x.dims[3]) / 2), 0)::BIGINT)
        AS least_padding,
        NOT is_transposed
        AND TRY((x.dims[3] + 2 * least_padding - w.dims[3]) // least_stride + 1) = y[1]
        AS is_inferred,
        list_bool_and([size IS NOT NULL for size in y]) AS is_known
    FROM operand
    LEFT JOIN seen
        ON operand.trace_id = seen.trace_id AND x.dims = x_dims AND w.dims = w_dims
    WHERE len(x.dims) BETWEEN 3 AND 5 AND len(w.dims) = len(x.dims)
)

SELECT
    op_id,
    run_id,
    trace_id,
    written,
    is_transposed,
    x.dims,
    w.dims,
    CASE WHEN is_known THEN y ELSE x.dims[3:] END,
    coalesce(recorded[2][1], CASE WHEN is_inferred THEN least_stride END),
    coalesce(recorded[1][1], CASE WHEN is_inferred THEN least_padding END),
    coalesce(recorded[3][1], CASE WHEN is_inferred THEN 1 END),
    greatest(CASE WHEN is_transposed THEN own_groups ELSE TRY(x.dims[2] // w.dims[2]) END, 1),
    is_known
FROM sized;
