-- Work of the ops that launch GPU work: FLOPs and bytes, from shapes alone, for all
-- problems (`prediction.op_problem`) that an op solves. Work that would take a machine a
-- minute or more (2^56 FLOP or B) is not work but a wrong shape.
-- One row per op of a known family and known shape.
-- Key: op_id.
CREATE TABLE prediction.op_work (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family.
    family,
    -- Arithmetic units, as in `prediction.arithmetic_unit`. What is not a product is done by
    -- vector units: in fp64 for types of that precision, otherwise in fp32.
    unit,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Elements written.
    written_elements,
    -- Steps that wait for each other: log2 of a node's ranks for collectives, otherwise 1.
    steps,
    -- For a collective, its ranks within a node; otherwise 1.
    node_ranks,
    -- [B] For a collective, what leaves a node: a rank's part of it; otherwise 0.
    network_bytes,
    -- Its steps from node to node; otherwise 0.
    network_steps,
    -- Matrices of a batch, each of which takes a block of threads; vectors and outer products
    -- do not count, which have kernels of their own.
    matrices,
    -- How many times as long a GEMM takes on matrix units because of its rows: 2 if they
    -- have an odd number of elements, 1.4 if they are not a multiple of 16 bytes: its kernels
    -- move less at a time. Otherwise 1.
    unaligned_factor,
    -- Whether it is a softmax of rows of more than 1,024 elements: no warp can hold one.
    is_wide,
    -- [B] Read and written for a row, if one block of threads does all of it: softmax, layer
    -- and RMS norm, and searches for the largest element. Those share a row among blocks
    -- from 131,072 elements on. Otherwise 0.
    block_bytes,
    -- [1] Distinct memory that it touches, as a share of what it reads and writes: below 1 if
    -- an embedding looks up rows repeatedly. Otherwise 1.
    touched_share,
    -- [1] Share of its accesses that take a cache line each (`prediction.op_layout`), if each
    -- element is treated by a thread: elementwise ops, copies, concatenation. Otherwise 0.
    scattered_share,
    -- Whether only kernels that multiply have this work, and others of the op have other work,
    -- of which nothing is known: layers with a norm, experts with their routing.
    is_mixed,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
counted AS (
    SELECT
        op_id,
        run_id,
        trace_id,
        family,
        coalesce(unit, CASE matrix_unit WHEN 'fp64_matrix' THEN 'fp64' ELSE 'fp32' END) AS unit,
        sum(flops) AS flops,
        sum(read_bytes) AS read_bytes,
        sum(written_bytes) AS written_bytes,
        coalesce(max(ranks_per_node), 1) AS node_ranks,
        coalesce(sum(network_bytes), 0) AS network_bytes,
        coalesce(max(network_steps), 0) AS network_steps,
        -- Where bytes do not tell, because an op has elements of several types.
        sum(elements) FILTER (family IN ('index', 'concat', 'copy')) AS counted_elements,
        coalesce(max(batch) FILTER (family = 'gemm' AND least(m, n, k) > 1), 0) AS matrices,
        max(CASE
            WHEN family <> 'gemm' OR vector_elements IS NULL THEN 1
            WHEN n > 1 AND n % 2 > 0 OR k > 1 AND k % 2 > 0 THEN 2
            WHEN n > 1 AND n % vector_elements > 0 OR k > 1 AND k % vector_elements > 0 THEN 1.4
            ELSE 1
        END) AS unaligned_factor,
        coalesce(bool_or(family = 'softmax' AND width > 1024), false) AS is_wide,
        coalesce(max((read_bytes + written_bytes) / nullif(rows, 0)) FILTER (
            family = 'softmax' OR regexp_matches(op, '^(layer|rms)_norm')
        ), 0) AS row_bytes,
        coalesce(max(
            read_bytes / nullif(rows, 0) * least(131_072 / nullif(width, 0), 1)
        ) FILTER (
            regexp_full_match(op, 'a?(max|min)|arg(max|min)')
        ), 0) AS searched_bytes,
        least(
            coalesce(
                sum(coalesce(footprint_bytes, read_bytes + written_bytes))
                / nullif(sum(read_bytes + written_bytes), 0), 1
            ),
            1
        ) AS touched_share,
        bool_or(op IN ('experts', 'layer', 'layer_backward')) AS is_mixed,
        bool_and(is_exact) AS is_exact
    FROM (
        SELECT
            *,
            -- In 16 bytes.
            CASE
                WHEN unit = 'half' THEN 8 WHEN dtype = 'float32' THEN 4
            END AS vector_elements
        FROM prediction.op_problem
        LEFT JOIN (
            SELECT DISTINCT model_dtype AS dtype, unit AS matrix_unit FROM prediction.op_dtype
        ) USING (dtype)
    )
    GROUP BY ALL
)

SELECT
    op_id,
    run_id,
    trace_id,
    family,
    unit,
    flops::BIGINT,
    read_bytes::BIGINT,
    written_bytes::BIGINT,
    coalesce(counted_elements, written_bytes // element_bytes, 0)::BIGINT,
    greatest(log2(node_ranks), 1),
    node_ranks,
    network_bytes::BIGINT,
    network_steps,
    matrices::BIGINT,
    unaligned_factor::DOUBLE,
    is_wide,
    greatest(row_bytes, searched_bytes)::BIGINT,
    touched_share,
    CASE
        WHEN family IN ('elementwise', 'broadcast', 'copy', 'concat')
            THEN coalesce(scattered_share, 0)
        ELSE 0
    END,
    is_mixed,
    is_exact
FROM counted
LEFT JOIN prediction.op_shape USING (op_id, run_id, trace_id)
LEFT JOIN prediction.op_layout USING (op_id)
WHERE
    flops BETWEEN 0 AND 72_057_594_037_927_936
    AND read_bytes BETWEEN 0 AND 72_057_594_037_927_936
    AND written_bytes BETWEEN 0 AND 72_057_594_037_927_936;
