-- How the tensors of an op lie in memory towards each other, by their strides. Neighbouring
-- threads treat neighbours of the largest tensor, along the dimension in which they lie
-- closest together. Tensors of a list become one, which is contiguous unless they are
-- channels-last. Elements of another tensor that lie apart along that dimension are read or
-- written a cache line of 128 bytes at a time, as in a transposing copy; steps of less than
-- a line count in part. A group of 64 threads shares lines, so that short dimensions count
-- less.
-- One row per op whose recorded strides show such a dimension.
-- Key: op_id.
CREATE VIEW prediction.op_layout (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Position, from the end, of the dimension along which neighbouring threads work; 0 is
    -- the last.
    inner_from_end,
    -- Elements along it.
    inner_size,
    -- [1] Share of accesses to the most scattered tensor that take a cache line each.
    scattered_share
) AS
WITH
known AS (
    SELECT
        op_id, run_id, trace_id,
        tensors[1].argument = tensors[2].argument AS is_list,
        [t for t in tensors if t.strides IS NOT NULL AND t.elements > 0] AS tensors
    FROM prediction.op_shape
    WHERE list_bool_or([t.strides IS NOT NULL for t in tensors])
),

guided AS (
    SELECT
        *,
        list_max([t.elements for t in tensors]) AS most,
        [t for t in tensors if t.elements = most][1] AS largest
    FROM known
),

closest AS (
    SELECT
        *,
        list_min([
            {
                'stride': largest.strides[n],
                'from_end': len(largest.dims) - n,
                'size': largest.dims[n]
            }
            for n in generate_series(1, len(largest.dims))
            if largest.dims[n] > 1 AND largest.strides[n] > 0
        ]) AS closest
    FROM guided
),

laid AS (
    SELECT
        op_id, run_id, trace_id, tensors,
        coalesce(is_list, false)
        AND (closest.from_end <> len(largest.dims) - 2 OR len(largest.dims) < 4) AS is_joined,
        CASE WHEN is_joined THEN 0 ELSE closest.from_end END AS inner_from_end,
        CASE WHEN is_joined THEN largest.dims[-1] ELSE closest.size END AS inner_size
    FROM closest
)

SELECT
    op_id,
    run_id,
    trace_id,
    inner_from_end,
    inner_size,
    list_max([
        greatest(
            least(t.strides[len(t.dims) - inner_from_end] * t.size / t.elements / 128, 1)
            * least(inner_size / 64, 1),
            t.size / t.elements / 128
        )
        for t in tensors
        if t.dims[len(t.dims) - inner_from_end] > 1
    ])
FROM laid
WHERE inner_size > 1;
