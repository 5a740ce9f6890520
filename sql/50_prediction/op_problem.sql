-- What the kernel models know of an op: family, op, type and sizes, in their terms (NULL
-- where the family has no such size, or it is not recorded). The backward pass of a
-- convolution is a problem for each gradient that it computes.
-- One row per op that launches GPU work of known shape, and problem that it solves.
-- Key: op_id, op.
CREATE VIEW prediction.op_problem (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family.
    op,
    -- Type of the elements: `float32`, `bfloat16` and so on; else the trace's typical one.
    dtype,
    -- Products of a batch; matrices that are copied.
    batch,
    -- Rows of A in a product.
    m,
    -- Columns of B in a product.
    n,
    -- Length of the sums of a product.
    k,
    -- Images of a convolution; sequences of an attention.
    images,
    -- Channels of a convolution's input.
    channels_in,
    -- Channels of its output.
    channels_out,
    -- Rows of its input.
    height,
    -- Columns of its input; elements of a row.
    width,
    -- Rows of its filter.
    kernel_height,
    -- Columns of its filter.
    kernel_width,
    -- Its stride.
    stride,
    -- Its padding.
    padding,
    -- Its dilation.
    dilation,
    -- Its groups.
    groups,
    -- Heads of an attention.
    heads,
    -- Heads of its keys.
    kv_heads,
    -- Queries of a sequence.
    queries,
    -- Keys of a sequence.
    keys,
    -- Elements of a head.
    head_dim,
    -- 1 where a query sees the keys before it only, else 0.
    causal,
    -- Rows: looked up, summed, normalised, joined, moved.
    rows,
    -- Rows of a table that is looked up in.
    table_rows,
    -- Tables that are looked up in.
    tables,
    -- Bags of each table, in which rows are summed.
    bags,
    -- Rows of a bag, in the mean.
    pooling,
    -- Different rows that are looked up, of all tables.
    distinct_rows,
    -- Elements written; elements updated.
    elements,
    -- Tensors read.
    inputs,
    -- Tensors written.
    outputs,
    -- Tensors joined or updated.
    tensors,
    -- Bytes copied or set; the message of a collective, as NCCL's tests count it.
    bytes,
    -- Ranks of a collective.
    ranks,
    -- Ranks of it on a node.
    ranks_per_node
) AS
WITH
problem AS (
    SELECT op_id, run_id, trace_id, 'gemm' AS family, op, batch, m, n, k
    FROM prediction.op_gemm
    UNION ALL BY NAME
    SELECT
        op_id, run_id, trace_id,
        'convolution' AS family,
        unnest(
            (CASE WHEN writes_y THEN ['forward'] ELSE [] END)
            || (CASE WHEN writes_x THEN ['backward_input'] ELSE [] END)
            || (CASE WHEN writes_w THEN ['backward_weight'] ELSE [] END)
        ) AS op,
        input_dims[1] AS images,
        input_dims[2] AS channels_in,
        CASE WHEN is_transposed THEN weight_dims[2] ELSE weight_dims[1] END AS channels_out,
        input_dims[3] AS height,
        input_dims[4] AS width,
        weight_dims[3] AS kernel_height,
        weight_dims[4] AS kernel_width,
        stride, padding, dilation,
        CASE
            WHEN is_transposed THEN 1
            ELSE input_dims[2] // greatest(weight_dims[2], 1)
        END AS groups
    FROM prediction.op_convolution
    WHERE len(input_dims) = 4 AND len(weight_dims) = 4
    UNION ALL BY NAME
    SELECT
        op_id, run_id, trace_id,
        'attention' AS family,
        CASE WHEN is_backward THEN 'backward' ELSE 'forward' END AS op,
        images, heads, kv_heads, queries, keys, head_dim,
        is_causal::BIGINT AS causal
    FROM prediction.op_attention
    UNION ALL BY NAME
    SELECT
        op_id, run_id, trace_id, family, op, width, table_rows,
        CASE WHEN bags IS NULL THEN rows END AS rows,
        CASE WHEN bags IS NOT NULL THEN 1 END AS tables,
        bags,
        rows / nullif(bags, 0) AS pooling
    FROM prediction.op_embedding
    INNER JOIN prediction.op_shape USING (op_id, run_id, trace_id)
    INNER JOIN prediction.op_kind USING (name)
    UNION ALL BY NAME
    SELECT
        op_id, run_id, trace_id,
        'embedding_bag' || CASE WHEN is_backward THEN '_backward' ELSE '' END AS family,
        'sum' AS op,
        width,
        tables,
        table_rows // nullif(tables, 0) AS table_rows,
        bags // nullif(tables, 0) AS bags,
        rows / nullif(bags, 0) AS pooling
    FROM prediction.op_embedding_bag
    WHERE rows IS NOT NULL
    UNION ALL BY NAME
    SELECT * FROM prediction.tensor_extent
    UNION ALL BY NAME
    SELECT
        op_id, run_id, trace_id,
        'collective' AS family,
        collective AS op,
        message_bytes AS bytes,
        rank_count AS ranks
    FROM prediction.op_collective
)

SELECT
    op_id, run_id, trace_id, family, op, model_dtype,
    batch::BIGINT, m::BIGINT, n::BIGINT, k::BIGINT, images::BIGINT, channels_in::BIGINT,
    channels_out::BIGINT, height::BIGINT, round(width)::BIGINT, kernel_height::BIGINT,
    kernel_width::BIGINT, stride::BIGINT, padding::BIGINT, dilation::BIGINT,
    groups::BIGINT, heads::BIGINT, kv_heads::BIGINT, queries::BIGINT, keys::BIGINT,
    head_dim::BIGINT, causal::BIGINT, rows::BIGINT, table_rows::BIGINT, tables::BIGINT,
    bags::BIGINT, round(pooling)::BIGINT, NULL::BIGINT, elements::BIGINT, inputs::BIGINT,
    outputs::BIGINT, problem.tensors::BIGINT, bytes::BIGINT, ranks::BIGINT, NULL::BIGINT
FROM problem
LEFT JOIN prediction.op_shape USING (op_id, run_id, trace_id);
