-- Convolutions and both gradients: X is the input, W [out channels, in channels per group,
-- ..] the weight, Y the output. Each multiplies the same numbers, 2 FLOPs for each element
-- of Y and product that is added for it; each reads two of X, W and Y and writes the third.
-- A transposed convolution is the gradient by X of one whose Y is its input. A 1D
-- convolution is a 2D one with one row; a third dimension counts as images and channels.
-- One row per convolution of known shape, and tensor that it computes.
-- Key: op_id, op.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_convolution (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `forward`, `backward_input` or `backward_weight`.
    op,
    -- Type of the elements, as the kernel models name it.
    dtype,
    -- Images.
    images,
    -- Channels of X.
    channels_in,
    -- Channels of Y.
    channels_out,
    -- Rows of X.
    height,
    -- Columns of X.
    width,
    -- Rows of W.
    kernel_height,
    -- Columns of W.
    kernel_width,
    -- Stride; 1 if unknown.
    stride,
    -- Padding; 0 if unknown.
    padding,
    -- Dilation; 1 if unknown.
    dilation,
    -- Groups.
    groups,
    -- Rows of Y.
    output_height,
    -- Columns of Y.
    output_width,
    -- Arithmetic units, as in `prediction.arithmetic_unit`; `tf32` for fp32, if allowed.
    unit,
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
-- A transposed convolution's X is in place of others' Y, and its Y in place of their X.
sized AS (
    SELECT
        * EXCLUDE (x, y),
        len(x) - 2 AS rank,
        x[1] AS image_count,
        CASE WHEN is_transposed THEN w[2] * groups ELSE x[2] END AS channels,
        CASE WHEN is_transposed THEN y ELSE x[3:] END AS x,
        CASE WHEN is_transposed THEN x[3:] ELSE y END AS y
    FROM prediction.convolution_shape
),

problem AS (
    SELECT
        op_id, run_id, trace_id, stride, padding, dilation,
        tensors[1].element.size AS element_bytes,
        tensors[1].element.name AS dtype,
        tensors[1].element.unit AS unit,
        unnest([
            CASE
                WHEN tensor = 'w' THEN 'backward_weight'
                WHEN (tensor = 'x') <> is_transposed THEN 'backward_input'
                ELSE 'forward'
            END for tensor in written
        ]) AS op,
        image_count * (CASE rank WHEN 3 THEN y[1] ELSE 1 END) AS images,
        groups,
        channels * (CASE rank WHEN 3 THEN w[3] ELSE 1 END) AS channels_in,
        w[1] AS channels_out,
        CASE rank WHEN 1 THEN 1 ELSE x[-2] END AS height,
        x[-1] AS width,
        CASE rank WHEN 1 THEN 1 ELSE w[-2] END AS kernel_height,
        w[-1] AS kernel_width,
        CASE rank WHEN 1 THEN 1 ELSE y[-2] END AS output_height,
        y[-1] AS output_width,
        coalesce(is_known, false) AND rank < 3 AND is_dtype_known
        AND tensors[1].element.size IN (2, 4)
        AS is_exact
    FROM sized
    INNER JOIN prediction.op_shape USING (op_id, run_id, trace_id)
)

SELECT
    op_id, run_id, trace_id, 'convolution' AS family, op, dtype,
    images, channels_in, channels_out, height, width, kernel_height, kernel_width,
    coalesce(stride, 1) AS stride,
    coalesce(padding, 0) AS padding,
    coalesce(dilation, 1) AS dilation,
    coalesce(groups, 1) AS groups,
    try_cast(y_rows AS BIGINT) AS output_height,
    try_cast(y_columns AS BIGINT) AS output_width,
    CASE dtype WHEN 'float32' THEN 'tf32' ELSE unit END AS unit,
    2 * y_elements * depth AS flops,
    try_cast(element_bytes * (x_elements + w_elements + y_elements - written) AS BIGINT)
    AS read_bytes,
    try_cast(element_bytes * written AS BIGINT) AS written_bytes,
    is_exact
FROM (
    SELECT
        *,
        coalesce(output_height, greatest(floor(
            (height + 2 * coalesce(padding, 0) - coalesce(dilation, 1) * (kernel_height - 1) - 1)
            / coalesce(stride, 1)
        ) + 1, 1)) AS y_rows,
        coalesce(output_width, greatest(floor(
            (width + 2 * coalesce(padding, 0) - coalesce(dilation, 1) * (kernel_width - 1) - 1)
            / coalesce(stride, 1)
        ) + 1, 1)) AS y_columns,
        -- Products added for each element of Y.
        channels_in::DOUBLE / coalesce(groups, 1) * kernel_height * kernel_width AS depth,
        images::DOUBLE * channels_in * height * width AS x_elements,
        channels_out * depth AS w_elements,
        images::DOUBLE * y_rows * y_columns * channels_out AS y_elements,
        CASE op
            WHEN 'backward_input' THEN x_elements
            WHEN 'backward_weight' THEN w_elements
            ELSE y_elements
        END AS written
    FROM problem
);
