-- What an op has to do: family, op, type and sizes, in the terms of the kernel models (NULL
-- where the family has no such size, or it is not recorded), and the arithmetic and bytes
-- that follow from them. It is all rows of the relations that say to be part of it, one a
-- family (`prediction.op_gemm` and so on): each says which ops it is of, which sizes their
-- arguments have, and in its last SELECT what work that is. Kernel models count the work of
-- what they were measured on by that same SELECT (`tracedb/kernels/work.py`).
-- The backward pass of a convolution is a problem for each gradient that it computes.
-- One row per op that launches GPU work of known shape, and problem that it solves.
-- Key: op_id, op.
CREATE TABLE prediction.op_problem (
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
    -- Rows of its output.
    output_height,
    -- Columns of its output.
    output_width,
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
    -- Rows of its gradient that are cleared before.
    cleared_rows,
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
    -- [B] All that is read, where the other sizes do not say it.
    input_bytes,
    -- [B] All that is written, where the other sizes do not say it.
    output_bytes,
    -- Bytes; the message of a collective, as NCCL's tests count it.
    bytes,
    -- Ranks of a collective.
    ranks,
    -- Ranks of it on a node.
    ranks_per_node,
    -- Units that do the arithmetic; NULL: those of vectors, in fp32.
    unit,
    -- [FLOP] Arithmetic; a multiplication with its addition is two.
    flops,
    -- [B] Bytes read, each access counted.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- [B] Of a collective, what leaves a node: a rank's part of it.
    network_bytes,
    -- Its steps from node to node that wait for each other.
    network_steps,
    -- [B] Distinct memory that is touched; NULL: all that is read or written.
    footprint_bytes,
    -- Whether sizes and types of all that counts were recorded.
    is_exact
);
