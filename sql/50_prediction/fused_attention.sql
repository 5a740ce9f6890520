-- Operands and scalars of fused attention of PyTorch, flash-attn, xFormers, AITER and vLLM,
-- forward and backward, whatever the order in which an op takes them.
-- One row per such op of known shape.
-- Key: op_id.
CREATE VIEW prediction.fused_attention (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Whether it computes gradients.
    is_backward,
    -- Whether heads come before queries and keys.
    is_heads_first,
    -- Whether it is memory-efficient attention: sequences that follow each other then have
    -- four dimensions, too.
    is_efficient,
    -- Q, a tensor of `prediction.op_shape`.
    q,
    -- K.
    k,
    -- V.
    v,
    -- Where sequences start, if they follow each other; NULL: no such vector.
    starts,
    -- Whether K is in pages.
    is_paged,
    -- Queries of the longest sequence; NULL: not recorded.
    most_queries,
    -- Keys of the longest sequence; NULL: not recorded.
    most_keys,
    -- Whether later keys are masked.
    is_causal,
    -- Keys before a query's own that it sees; negative or NULL: all.
    left_keys,
    -- Keys after it; negative or NULL: all.
    right_keys,
    -- Whether the type was recorded.
    is_dtype_known
) AS
WITH
named AS (
    SELECT
        *,
        regexp_matches(bare_name, 'backward|bwd') AS is_backward,
        starts_with(bare_name, '_scaled_dot_product_') AS is_heads_first,
        regexp_matches(bare_name, '(^_|::)efficient_') AS is_efficient,
        -- These take another flag, of what to zero, before the mask's.
        regexp_full_match(bare_name, '_vllm_fa2_C::varlen_fwd|aiter::mha_varlen_(fwd|bwd)')
        AS is_flag_second,
        -- The scale may be missing here, and the cap be the first number with a point.
        regexp_matches(bare_name, '^(flash_attn_3|_vllm_fa3_C|sgl_kernel|vllm)::')
        AS is_flag_first,
        CASE WHEN is_backward OR bare_name LIKE '%_inplace' THEN 2 ELSE 1 END AS q_at,
        tensors[q_at] AS q,
        tensors[q_at + 1] AS k,
        tensors[q_at + 2] AS v,
        coalesce(json_extract_string(concrete_inputs, '$[*]'), []) AS given
    FROM prediction.op_shape
    INNER JOIN prediction.op_name USING (trace_id, name)
    WHERE
        is_complete
        AND regexp_full_match(
            bare_name,
            '_scaled_dot_product_.*|_(flash|efficient|cudnn)_attention_.*'
            || '|flash_?attn(_[23])?::(_flash_attn_(varlen_)?(forward|backward)(_v[23])?|fwd|bwd)'
            || '|FlashAttn(Varlen)?Func|vllm::flash_attn_varlen_func|sgl_kernel::fwd'
            || '|_vllm_fa[23]_C::(varlen_)?fwd'
            || '|xformers(_flash3?)?::(flash_(fwd|bwd)'
            || '|efficient_attention_(forward|backward)_(cutlass|ck))'
            || '|aiter::(mha|fmha_v3)_(varlen_)?(fwd|bwd)|aiter::_flash_attn_(forward|backward)'
        )
),

-- Scalars have no names: each is known by its type and by what is before it. The dropout
-- and the scale are the first numbers with a point; the mask's flag, or its number, follows.
typed AS (
    SELECT
        *,
        coalesce(list_position([
            regexp_full_match(value, '-?\d+(\.\d*)?(e[+-]?\d+)?')
            AND regexp_matches(value, '[.e]')
            for value in given
        ], true), 0) AS point,
        [value IN ('True', 'False') for value in given] AS is_flag,
        prediction.vector_after(tensors, v.argument) AS starts
    FROM named
    WHERE len(q.dims) IN (3, 4) AND len(k.dims) IN (3, 4)
),

scalar AS (
    SELECT
        *,
        CASE
            WHEN is_efficient AND is_backward AND point > 0 THEN point + 3
            WHEN is_efficient AND NOT is_backward AND point > 0
                THEN point + CASE WHEN is_flag[point + 1] THEN 2 ELSE 1 END
            WHEN is_flag_first THEN list_position(is_flag, true)
            ELSE
                point + list_position(is_flag[point + 1:], true)
                + CASE
                    WHEN is_flag_second OR is_efficient AND NOT is_backward THEN 1 ELSE 0
                END
        END AS place,
        list_filter(
            given[starts.argument + 2:coalesce(place - 1, len(given))],
            lambda value: regexp_full_match(value, '\d+')
        ) AS lengths,
        CASE
            WHEN NOT is_efficient THEN list_transform(
                list_filter(given[place + 1:], lambda value: regexp_full_match(value, '-?\d+')),
                lambda value: try_cast(value AS BIGINT)
            )
        END AS sides
    FROM typed
)

SELECT
    op_id, run_id, trace_id,
    is_backward, is_heads_first, is_efficient,
    q, k, v, starts,
    len(k.dims) = 4 AND (
        len(q.dims) = 3
        OR list_bool_or([
            t.argument > v.argument AND len(t.dims) = 2 AND t.element.name = 'int32'
            for t in tensors
        ])
    ),
    try_cast(lengths[1] AS INTEGER),
    try_cast(lengths[2] AS INTEGER),
    sides[2] IS NOT DISTINCT FROM 0 OR coalesce(given[place] IN ('True', '1', '2'), false),
    sides[1],
    sides[2],
    is_dtype_known
FROM scalar;
