-- Ops of libraries (vLLM, SGLang, FlashInfer, AITER, Liger, Apex, Megatron, FBGEMM) that pass
-- some of their arguments once, and follow from the sizes of these: gated activations,
-- quantization, rotary embeddings, caches of keys and values, routing to experts. Lists hold
-- numbers of arguments, from 0, as the libraries declare them. Of autograd functions (names
-- without `::`), which record no arguments of other types, only tensors are numbered;
-- their backward ops have gradients, and what was saved is as large. Ops whose work values
-- decide are not listed: attention over pages (lengths), masked experts (counts), sampling.
-- One row per pattern; none matches a name that another matches.
-- Key: pattern.
CREATE VIEW prediction.memory_op (
    -- Regular expression that the whole name must match (`prediction.op_name`).
    pattern,
    -- Family: ops with the same efficiency (`prediction.kernel_efficiency`).
    family,
    -- Op of the family; NULL: the name without its library.
    op,
    -- [FLOP] FLOPs per element written.
    element_flops,
    -- Arguments that are read; twice if it is in the list twice.
    read_places,
    -- Arguments that have as many elements as are written; twice, likewise.
    written_places,
    -- Arguments of whose type these are, in the same order; NULL: of their own.
    type_places,
    -- [B] Element written, if no argument has its type; otherwise NULL.
    element_bytes,
    -- A vector with an element for each row of the arguments that is passed; NULL: all are.
    row_place,
    -- A table whose rows are as wide as what is passed of each head; NULL: all is.
    width_place,
    -- Value with the elements of a head; NULL: the last size of what is read.
    head_place
) AS
WITH
listed AS (
    FROM (VALUES
        -- Gated activations: twice as wide a tensor is read as is written.
        (
            '(_C|sgl_kernel|flashinfer|aiter|rtp_llm_ops)::(silu|gelu(_tanh|_fast)?)_and_mul'
            || '|_C::(fatrelu|swigluoai)_and_mul|_C::mul_and_silu',
            'elementwise', 'silu_mul', 5, [1], [0]
        ),
        ('_C::silu_and_mul_quant|aiter::scaled_silu_and_mul', 'elementwise', NULL, 6, [1], [0]),
        ('_C::silu_and_mul_per_block_quant', 'elementwise', NULL, 7, [1], [0, 2]),
        ('_C::silu_and_mul_nvfp4_quant', 'elementwise', NULL, 6, [2], [0, 1]),
        ('_C::gelu_(new|fast|quick)', 'elementwise', NULL, 5, [1], [0]),
        ('Liger(SiLU|GELU)MulFunction', 'elementwise', 'silu_mul', 5, [0, 1], [0]),
        -- It reads what was saved, too, and writes two gradients.
        (
            'Liger(SiLU|GELU)MulFunctionBackward|SwiGLUFunctionBackward', 'elementwise', NULL, 5,
            [0, 0, 0], [0, 0]
        ),
        ('GeLUFunction', 'elementwise', 'gelu', 175, [0], [0]),
        ('GeLUFunctionBackward', 'elementwise', 'gelu_backward', 255, [0, 0], [0]),
        -- With a scale that is there the input passes once, otherwise also to find it.
        (
            '_C::static_scaled_(fp8|int8)_quant|aiter::static_per_tensor_quant'
            || '|_C_cache_ops::convert_fp8',
            'elementwise', 'quantize', 2, [1], [0]
        ),
        (
            '_C::dynamic_scaled_fp8_quant|aiter::dynamic_per_tensor_quant',
            'elementwise', 'quantize', 3, [1, 1], [0]
        ),
        (
            '_C::dynamic_(per_token_scaled_fp8|scaled_int8)_quant'
            || '|aiter::dynamic_per_(token|group)_scaled_quant(_fp4)?'
            || '|(_C|sgl_kernel)::scaled_fp4_quant',
            'elementwise', 'quantize', 3, [1], [0, 2]
        ),
        (
            '(_C|sgl_kernel)::(sgl_)?per_token(_group)?(_fp8)?_quant(_(fp8|int8|8bit))?(_packed)?',
            'elementwise', 'quantize', 3, [0], [1, 2]
        ),
        -- Partial results of attention, joined.
        ('(_C|vllm)::merge_attn_states', 'elementwise', NULL, 3, [2, 3, 4, 5], [0, 1]),
        ('sgl_kernel::merge_state(_v2)?', 'elementwise', NULL, 3, [0, 1, 2, 3], [4, 5]),
        -- Routing to experts: probabilities of each, the best of them, tokens in their order.
        ('(_moe_C|aiter)::topk_softmax', 'softmax', 'topk_softmax', 180, [3], [0, 1, 2]),
        ('sgl_kernel::topk_(softmax|sigmoid)', 'softmax', 'topk_softmax', 180, [2], [0, 1]),
        ('(_moe_C|sgl_kernel)::moe_align_block_size', 'index', NULL, 1, [0, 0], [3, 4, 5]),
        ('(_moe_C|aiter)::moe_sum', 'reduction', NULL, 1, [0], [1]),
        ('(_moe_C|sgl_kernel)::shuffle_rows', 'index', NULL, 0, [2], [2]),
        ('sgl_kernel::concat_mla_k', 'concat', NULL, 0, [1, 2], [0]),
        -- Logits are read for their sum, and again; gradients take their place.
        ('LigerCrossEntropyFunction', 'softmax', NULL, 180, [0, 0], [0]),
        ('FusedRoPEFunc(Backward)?', 'elementwise', 'rope', 3, [0], [0]),
        ('LigerRopeFunction(Backward)?', 'elementwise', 'rope', 3, [0, 1], [0, 1])
    ) AS listed (pattern, family, op, element_flops, read_places, written_places)
)

SELECT pattern, family, op, element_flops, read_places, written_places,
    NULL, NULL::BIGINT, NULL::BIGINT, NULL::BIGINT, NULL::BIGINT
FROM listed
UNION ALL
FROM (VALUES
    -- Keys and values, into pages of the type of the cache.
    (
        '(_C_cache_ops|aiter)::reshape_and_cache(_flash)?', 'index', NULL, 0,
        [0, 1], [0, 1], [2, 3], NULL, 4, NULL, NULL
    ),
    (
        '(_C_cache_ops|aiter)::concat_and_cache_mla', 'index', NULL, 0,
        [0, 1], [0, 1], [2, 2], NULL, 3, NULL, NULL
    ),
    (
        'sgl_kernel::store_kv_cache', 'index', NULL, 0,
        [3, 4], [3, 4], [0, 1], NULL, 2, NULL, NULL
    ),
    -- Results are returned, and are of no argument's type.
    (
        'fbgemm::quantize_fp8_per_row|vllm::rocm_aiter_(per_token|group_fp8)_quant'
        || '|triton::quantize_fp8_row',
        'elementwise', 'quantize', 3, [0], [0], NULL, 1, NULL, NULL, NULL
    ),
    -- A head may be turned in part: as much as the table of angles is wide.
    (
        '(_C|sgl_kernel)::rotary_embedding', 'elementwise', 'rope', 3,
        [1, 2], [1, 2], NULL, NULL, NULL, 4, 3
    ),
    (
        '(sgl_kernel|flashinfer)::apply_rope_pos_ids_cos_sin_cache', 'elementwise', 'rope', 3,
        [0, 1], [2, 3], NULL, NULL, NULL, 4, NULL
    )
);
