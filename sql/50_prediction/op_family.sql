-- The family of ops, if several families or many names share a relation: the others
-- (`prediction.op_gemm`, `op_convolution` and so on) define their ops themselves. Names are
-- without `aten::` and a final underscore; the first matching pattern decides. A word
-- inside another name does not count: unlisted ops have no model
-- (`prediction.unmodelled_op`).
-- One row per pattern.
-- Key: pattern.
CREATE VIEW prediction.op_family (
    -- Order of the pattern: the lowest that matches decides.
    ordinal,
    -- Regular expression that the whole name must match.
    pattern,
    -- Family: ops with the same efficiency (`prediction.kernel_efficiency`).
    family,
    -- The relation that counts them, without `op_`: `elementwise` is
    -- `prediction.op_elementwise`.
    rule,
    -- [FLOP] FLOPs per element, if counted that way.
    element_flops
) AS
-- FLOPs per element: Lin et al., paper-facts 3.3 (transcendental functions count as the
-- instructions that they take), except for tanh's gradient, which is of its result.
SELECT row_number() OVER () AS ordinal, *
FROM (VALUES
    -- A generated kernel's name lists the ops that it fuses; a template's (`tem`) multiplies.
    ('triton_(poi|red|per|for|unk|split_scan)_.*', 'fused', 'elementwise', 4),
    ('(_unsafe_)?index_put|_index_put_impl|index_(add|copy)', 'index', 'index', 1),
    ('scatter.*|masked_scatter', 'index', 'index', 1),
    ('index|_unsafe_index|gather|take|masked_select', 'index', 'index', 0),
    ('tril|triu|roll|flip', 'index', 'index', 0),
    -- Each warp copies adjacent columns, so these are no lookups.
    (
        'fbgemm::(permute_(duplicate_)?pooled_embs|recat_embedding_grad_output).*'
        || '|torch::autograd::CppNode<.*PermutePooledEmbsFunction.*',
        'copy', 'copy', 0
    ),
    -- FBGEMM's GEMMs of quantized matrices (`f8f8bf16_rowwise`) are not listed: their
    -- inputs also hold scales and packed elements.
    (
        'fbgemm::(permute|block_bucketize|bucketize|expand_into|invert|reorder|histogram)_.*',
        'index', 'index', 0
    ),
    ('fbgemm::(asynchronous_.*cumsum|segment_.*|(offsets|lengths)_.*)', 'index', 'index', 0),
    ('fbgemm::(bounds_check|linearize|lxu_cache|lru_cache|lfu_cache)_.*', 'index', 'index', 0),
    (
        'fbgemm::(dense_to_jagged|jagged_(to|1d_to|2d_to|index|slice|unique|dense_elementwise)'
        || '|keyed_jagged_index|stacked_jagged|batch_index_select|group_index_select'
        || '|index_select|select_dim|pack_segments|cat_reorder|merge_pooled|all_to_one).*',
        'index', 'index', 0
    ),
    ('cat|_cat|stack|hstack|vstack|split_with_sizes_copy|_chunk_cat', 'concat', 'concat', 0),
    ('copy|_to_copy|clone|contiguous', 'copy', 'copy', 0),
    ('fill|zero|zeros|ones|full|arange|eye', 'fill', 'elementwise', 0),
    ('_foreach_zero|zeros_like|ones_like', 'fill', 'elementwise', 0),
    ('uniform|normal|log_normal|cauchy|exponential|bernoulli', 'random', 'elementwise', 20),
    ('random|randperm|multinomial', 'random', 'elementwise', 20),
    ('_fused_(adam|adamw|adagrad|sgd)', 'optimizer', 'optimizer', 10),
    ('_foreach_norm', 'optimizer', 'optimizer', 2),
    ('_foreach_.*|_amp_.*|_multi_tensor.*', 'optimizer', 'optimizer', 1),
    ('_log_softmax|_softmax|softmax|_masked_softmax', 'softmax', 'softmax', 174),
    ('_?(log_)?softmax_backward(_data)?|_masked_softmax_backward', 'softmax', 'softmax', 2),
    (
        '(\w+::)?_?((native|cudnn|miopen|fused|add|rocm|aiter)_)*'
        || '(batch|layer|group|instance|rms)_norm_backward(_elemt|_reduce)?',
        'normalisation', 'normalisation', 10
    ),
    (
        '(\w+::)?_?((native|cudnn|miopen|fused|add|rocm|aiter|gemma|wrapper)_)*'
        || '(batch|layer|group|instance|rms)_?norm(2d)?(_(elemt|legit|no|training|functional'
        || '|gather|stats|with|counts|update|static|dynamic|per|token|block|fp8|int8|quant'
        || '|fwd|run|add|ck|cu|opus|smoothquant|dynamicquant))*',
        'normalisation', 'normalisation', 5
    ),
    -- Autograd functions of Apex and Liger; for backward, they have saved their input.
    (
        '(Fused|Mixed|Liger|Fast)*(Layer|RMS|Group)Norm(Affine)?(Function|FN)Backward',
        'normalisation', 'normalisation', 10
    ),
    (
        '(Fused|Mixed|Liger|Fast)*(Layer|RMS|Group)Norm(Affine)?(Function|FN)',
        'normalisation', 'normalisation', 5
    ),
    ('(Scaled|Generic|UpperTriang|Masked)+SoftmaxBackward', 'softmax', 'softmax', 2),
    ('(Scaled|Generic|UpperTriang|Masked)+Softmax', 'softmax', 'softmax', 174),
    (
        '_?(adaptive_|fractional_|quantized_)?(max|avg)_pool[123]d(_with_indices)?_backward',
        'pooling', 'elementwise', 17
    ),
    (
        '_?(adaptive_|fractional_|quantized_)?(max|avg)_pool[123]d(_with_indices)?',
        'pooling', 'elementwise', 8
    ),
    ('upsample_.*', 'pooling', 'elementwise', 4),
    ('sum|mean|prod|norm|linalg_vector_norm|nansum|logsumexp', 'reduction', 'reduction', 1),
    ('max|min|amax|amin|argmax|argmin|all|any|count_nonzero', 'reduction', 'reduction', 1),
    ('std|var|var_mean|std_mean|dot', 'reduction', 'reduction', 2),
    ('mse_loss|smooth_l1_loss|l1_loss|huber_loss|kl_div', 'reduction', 'reduction', 3),
    ('nll_loss(2d)?_forward|cross_entropy_loss', 'reduction', 'reduction', 1),
    ('binary_cross_entropy(_with_logits)?', 'reduction', 'reduction', 7),
    ('nonzero|unique.*|_unique2|histc|bincount', 'reduction', 'reduction', 1),
    ('nll_loss(2d)?_backward', 'fill', 'elementwise', 1),
    ('gelu', 'elementwise', 'elementwise', 175),
    ('gelu_backward', 'elementwise', 'elementwise', 255),
    ('pow|exp|exp2|expm1|log|log2|log10|log1p|erf', 'elementwise', 'elementwise', 180),
    ('a?(sin|cos|tan)h?|atan2|softplus|mish|elu', 'elementwise', 'elementwise', 180),
    ('(softplus|mish|elu)_backward', 'elementwise', 'elementwise', 180),
    ('sigmoid|silu|hardsigmoid|hardswish|logit', 'elementwise', 'elementwise', 4),
    ('add|addcdiv|addcmul|sub|rsub|mul|div|floor_divide|lerp', 'elementwise', 'elementwise', 1),
    ('fmod|remainder|reciprocal|sqrt|rsqrt|square|xlogy', 'elementwise', 'elementwise', 1),
    ('abs|neg|sgn|sign|ceil|floor|frac|round|trunc', 'elementwise', 'elementwise', 1),
    ('clamp|clamp_max|clamp_min|clip|maximum|minimum', 'elementwise', 'elementwise', 1),
    ('relu|relu6|leaky_relu|prelu|glu|hardtanh|threshold', 'elementwise', 'elementwise', 1),
    ('eq|ne|ge|gt|le|lt|isfinite|isinf|isnan|nan_to_num', 'elementwise', 'elementwise', 1),
    ('bitwise_.*|logical_.*|__.*__|where|masked_fill', 'elementwise', 'elementwise', 1),
    ('complex|real|imag|polar|copysign', 'elementwise', 'elementwise', 1),
    ('dropout|native_dropout|_fused_dropout|_masked_scale', 'elementwise', 'elementwise', 2),
    (
        '(threshold|sigmoid|tanh|hardtanh|hardsigmoid|hardswish)_backward',
        'elementwise', 'elementwise', 2
    ),
    (
        '(leaky_relu|silu|glu|_prelu_kernel|rrelu_with_noise)_backward',
        'elementwise', 'elementwise', 2
    ),
    (
        '(log_sigmoid|logit|softshrink|hardshrink|celu|selu)_backward',
        'elementwise', 'elementwise', 2
    ),
    ('(native_dropout|_fused_dropout|_masked_scale)_backward', 'elementwise', 'elementwise', 2),
    ('(mse|smooth_l1|l1|huber)_loss_backward', 'elementwise', 'elementwise', 2),
    ('(binary_cross_entropy(_with_logits)?|kl_div)_backward', 'elementwise', 'elementwise', 2),
    (
        '((reflection|replication)_pad|grid_sampler_)[123]d_backward',
        'elementwise', 'elementwise', 2
    ),
    (
        '(slice|select|gather|diagonal|unfold|index_select)_backward',
        'elementwise', 'elementwise', 2
    ),
    ('constant_pad_nd|repeat|tile|repeat_interleave', 'copy', 'copy', 0)
) AS listed (pattern, family, rule, element_flops);
