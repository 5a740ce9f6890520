-- The work of an op: family, op, type and sizes, in the terms of the kernel models (NULL if
-- the family has no such size, or it is not recorded), and the resulting FLOPs and bytes.
-- It combines the rows of the relations that are part of it, one per family
-- (`prediction.op_gemm` and so on): each defines its ops, the sizes of their arguments, and
-- in its last SELECT their work. Kernel models count the work of their training data by
-- that same SELECT (`tracedb/kernels/work.py`). The backward pass of a convolution is a
-- problem for each gradient that it computes.
-- One row per op that launches GPU work of known shape, and problem that it solves.
-- Key: op_id, op.
CREATE TABLE prediction.op_problem (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- Op of the family.
    op,
    -- Type of the elements: `float32`, `bfloat16` and so on; otherwise the trace's typical
    -- one.
    dtype,
    -- Batch size of a GEMM; matrices copied.
    batch,
    -- M of a GEMM: rows of A.
    m,
    -- N of a GEMM: columns of B.
    n,
    -- K of a GEMM: length of its sums.
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
    -- 1 if attention is causal, otherwise 0.
    causal,
    -- Keys that a query of an attention sees at most; NULL: all.
    visible_keys,
    -- Rows looked up, summed, normalized, concatenated or moved.
    rows,
    -- Rows of the lookup table.
    table_rows,
    -- Rows of its gradient that are zeroed first.
    cleared_rows,
    -- Tables looked up.
    tables,
    -- Bags of each table, in which rows are summed.
    bags,
    -- Mean number of rows per bag.
    pooling,
    -- Distinct rows looked up, over all tables.
    distinct_rows,
    -- Elements written; elements updated.
    elements,
    -- Tensors read.
    inputs,
    -- Tensors written.
    outputs,
    -- Tensors concatenated or updated.
    tensors,
    -- [B] Total bytes read, if the other sizes do not determine it.
    input_bytes,
    -- [B] Total bytes written, if the other sizes do not determine it.
    output_bytes,
    -- Bytes; the message of a collective, as NCCL's tests count it.
    bytes,
    -- Ranks of a collective.
    ranks,
    -- Ranks of it per node.
    ranks_per_node,
    -- Arithmetic units; NULL: vector units, in fp32.
    unit,
    -- [FLOP] FLOPs; a multiply-add counts as two.
    flops,
    -- [B] Bytes read; each access counts.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- [B] For a collective, what leaves a node: a rank's part of it.
    network_bytes,
    -- Its steps from node to node that wait for each other.
    network_steps,
    -- [B] Distinct memory touched; NULL: everything read or written.
    footprint_bytes,
    -- Whether all relevant sizes and types were recorded.
    is_exact
);
