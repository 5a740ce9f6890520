-- Extents of the ops that are bound by the bytes they move, in the terms of the kernel
-- models: elements and tensors of what works element by element, else rows and their
-- widths. A row is what is summed, normalised, joined or moved together.
-- Reductions: as many rows as results (of a loss that is summed, one). Softmax: the
-- dimension it is over is the width; normalisations: what shares a mean. Concatenations:
-- what lies before the joined dimension are rows. Index ops: an index each is a row, but
-- of `tril` and `gather` the last dimension is the width.
-- One row per such op of known shape.
-- Key: op_id.
CREATE VIEW prediction.tensor_extent (
    -- The op.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Family of the kernel models; what fills tensors is elementwise, with no inputs.
    family,
    -- Op of the family: the name without what says how it is called.
    op,
    -- Elements written, or (optimizer) updated; NULL where rows say it, as the next ones.
    elements,
    -- Tensors read.
    inputs,
    -- Tensors written.
    outputs,
    -- Tensors joined or updated.
    tensors,
    -- Matrices that are copied.
    batch,
    -- Rows.
    rows,
    -- Elements of a row.
    width
) AS
WITH
shape AS (
    SELECT
        op_shape.*,
        work.family,
        rule,
        regexp_replace(
            regexp_replace(name, '^(\w+::)*_?(native_|cudnn_|miopen_)?', ''),
            '([^_])_$|(backward)_data$', '\1\2'
        ) AS op,
        tensors[1].dims AS dims,
        tensors[1].elements AS first_elements,
        -- Where the dimension stands that is worked along.
        CASE
            WHEN regexp_matches(name, 'softmax_backward|norm$') THEN '$[2]'
            ELSE '$[1]'
        END AS ordinal,
        concrete_inputs ->> ordinal AS along,
        coalesce(try_cast(along AS BIGINT []), [try_cast(along AS BIGINT)]) AS dim_list,
        TRY(list_product([
            dims[CASE WHEN dim < 0 THEN len(dims) + dim + 1 ELSE dim + 1 END]
            for dim in dim_list
        ])) AS along_elements
    FROM prediction.op_shape
    INNER JOIN prediction.op_work AS work USING (op_id, run_id, trace_id)
    INNER JOIN prediction.op_kind USING (name)
    WHERE rule NOT IN ('product', 'convolution', 'attention', 'lookup', 'bag')
),

elementwise AS (
    SELECT
        * REPLACE (
            CASE WHEN family = 'broadcast' THEN family ELSE 'elementwise' END AS family,
            CASE
                WHEN family IN ('fill', 'fused') THEN family
                WHEN rule = 'copy' THEN 'cast'
                WHEN op = 'dropout' THEN 'native_dropout'
                ELSE op
            END AS op
        ),
        CASE rule
            WHEN 'write' THEN first_elements
            ELSE coalesce(results[1].elements, broadcast_elements)
        END AS elements,
        CASE
            WHEN rule IN ('write', 'copy') THEN (rule = 'copy')::BIGINT
            WHEN family = 'fused' THEN greatest(len(tensors) - 1, 1)
            ELSE greatest(len([t for t in tensors if t.elements > 1]), 1)
        END AS inputs,
        CASE WHEN op = 'dropout' THEN 2 ELSE 1 END AS outputs
    FROM shape
    WHERE family IN ('elementwise', 'broadcast', 'fill', 'random', 'fused')
),

-- The first tensor is of `first_elements`, in rows of `width`.
rowwise AS (
    SELECT
        * REPLACE (
            CASE
                WHEN family = 'normalisation'
                    THEN regexp_extract(op, '(batch|layer|group|instance|rms)_norm')
                    || CASE WHEN op LIKE '%backward%' THEN '_backward' ELSE '' END
                WHEN rule = 'scatter' THEN 'scatter'
                WHEN op = 'unsafe_index' THEN 'index'
                ELSE op
            END AS op
        ),
        TRY(CASE
            WHEN family = 'softmax' THEN coalesce(along_elements, dims[-1])
            WHEN op LIKE '%batch_norm%' THEN first_elements // dims[2]
            WHEN op = 'layer_norm_backward' AND len(tensors) > 3
                THEN first_elements // tensors[3].elements
            WHEN op = 'layer_norm' AND len(tensors) > 1 THEN tensors[2].elements
            WHEN op = 'group_norm'
                THEN first_elements // (
                    try_cast(concrete_inputs ->> 3 AS BIGINT)
                    * try_cast(concrete_inputs ->> 6 AS BIGINT)
                )
            WHEN family = 'normalisation' THEN dims[-1]
            WHEN op LIKE '%loss%' AND op NOT LIKE 'nll%' THEN first_elements
            WHEN op LIKE '%loss%' OR op LIKE 'cum%' THEN dims[-1]
            WHEN family = 'reduction' AND len(results) > 0
                THEN first_elements // greatest(results[1].elements, 1)
            WHEN family = 'reduction' AND concrete_inputs IS NOT NULL
                THEN coalesce(along_elements, first_elements)
            WHEN rule = 'gather' AND op LIKE '%index' AND len(results) > 0
                THEN results[1].elements // greatest(tensors[2].elements, 1)
            WHEN rule = 'scatter' THEN tensors[-1].dims[-1]
            WHEN family IN ('copy', 'index') THEN coalesce(dims[-1], 1)
        END) AS width,
        TRY(CASE
            WHEN rule = 'gather' AND op NOT LIKE '%index' THEN tensors[-1].elements // width
            WHEN rule = 'gather' AND len(tensors) > 1 THEN tensors[2].elements
            WHEN rule = 'scatter' THEN tensors[-1].elements // width
            ELSE first_elements // width
        END) AS rows
    FROM shape
    WHERE family IN ('reduction', 'softmax', 'normalisation', 'copy', 'index')
),

-- The tensors of a list are joined where they differ, if the dimension is not recorded.
listed AS (
    SELECT
        * REPLACE (
            CASE
                WHEN family = 'optimizer' THEN op
                WHEN op LIKE '%split%' THEN 'split'
                ELSE 'cat'
            END AS op
        ),
        len([t for t in tensors if t.argument = tensors[1].argument]) AS tensor_count,
        coalesce(
            CASE WHEN dim_list[1] < 0 THEN len(dims) + dim_list[1] ELSE dim_list[1] END,
            list_position(
                [list_unique([t.dims[n] for t in tensors]) > 1 for n in range(1, 9)],
                true
            ) - 1,
            1
        ) AS dim,
        TRY(coalesce(list_product(dims[:dim]), 1)::BIGINT) AS row_count,
        (first_bytes // element_bytes)::BIGINT AS elements
    FROM shape
    WHERE family IN ('concat', 'optimizer')
)

SELECT
    op_id, run_id, trace_id, family, op, elements, inputs, outputs,
    NULL::BIGINT, NULL::BIGINT, NULL::BIGINT, NULL::BIGINT
FROM elementwise
UNION ALL
SELECT
    op_id, run_id, trace_id, family, op, NULL, NULL, NULL, NULL,
    CASE WHEN family = 'copy' THEN TRY(rows // coalesce(dims[-2], 1)) END,
    CASE WHEN family = 'copy' THEN coalesce(dims[-2], 1) ELSE rows END,
    width
FROM rowwise
WHERE width > 0
UNION ALL
SELECT
    op_id, run_id, trace_id, family, op,
    CASE family WHEN 'optimizer' THEN elements END,
    NULL, NULL, tensor_count, NULL,
    CASE family WHEN 'concat' THEN row_count END,
    CASE family WHEN 'concat' THEN TRY(elements // row_count) END
FROM listed;
