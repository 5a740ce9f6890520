-- Which GPU work an op launches when PyTorch runs it eagerly on a CUDA GPU, if no trace
-- shows it: the first matching pattern decides, and an op without a match launches one
-- kernel. Ops on lists (`_foreach_`, `_fused_`) launch it for each chunk of tensors.
-- One row per pattern.
-- Key: ordinal.
CREATE VIEW prediction.launch_rule (
    -- Order of the pattern.
    ordinal,
    -- Regular expression that the whole name must match; that of PyTorch's own ops without
    -- `aten::` and a final underscore.
    pattern,
    -- Kernels, in order; names of GEMMs and convolutions are as `prediction.kernel_work`
    -- finds them. Empty: the op launches nothing. Rows that are looked up or concatenated
    -- in pieces of 16 bytes have their own kernels, since PyTorch 2.8.
    kernels
) AS
-- From PyTorch's sources (2.4 to 2.13) and FBGEMM's (0.5 to 1.0) of each op's CUDA kernels.
-- Ops that sort their indices (gradients of embeddings, index_put with accumulation) launch a
-- radix sort, here that of many keys, and scans. `_coalesce` sorts by merging, in as many
-- passes as the number of rows needs.
FROM (VALUES
    (1, 'empty.*|new_empty.*|resize|set|lift_fresh|is_.*|_local_scalar_dense|item', []),
    (
        2,
        'detach|alias|view|_unsafe_view|_reshape_alias|expand|t|transpose|permute|slice'
        || '|select|squeeze|unsqueeze|as_strided|(unsafe_)?split(_with_sizes)?|unbind|(unsafe_)?chunk'
        || '|narrow|diagonal|record_stream', []
    ),
    (3, 'convolution_backward', ['conv_dgrad', 'conv_wgrad']),
    (4, '.*convolution.*', ['conv_fprop']),
    (5, '(_?add)?(b?mm|addbmm|baddbmm|mv|addmv)|_addmm_activation|linear|_scaled_mm', ['gemm']),
    (6, 'native_layer_norm_backward', ['layer_norm_grad_input', 'layer_norm_gamma_beta']),
    (7, 'native_group_norm(_backward)?', ['moments', 'group_norm']),
    (8, '_scaled_dot_product_flash_attention', ['flash_fwd']),
    (
        9, '_scaled_dot_product_flash_attention_backward',
        ['flash_bwd_dot_do_o', 'flash_bwd', 'flash_bwd_convert_dq']
    ),
    (10, '_scaled_dot_product_efficient_attention', ['fmha_forward']),
    (11, '_scaled_dot_product_efficient_attention_backward', ['fmha_delta', 'fmha_backward']),
    (
        12, 'embedding_dense_backward|_embedding_bag_dense_backward',
        ['zero', 'iota', 'radix_sort_histogram', 'radix_sort_scan', 'radix_sort_onesweep',
         'segment_offsets', 'segment_scan', 'embedding_backward']
    ),
    (
        13, '(_unsafe_|_)?index_put(_impl)?',
        ['iota', 'radix_sort_histogram', 'radix_sort_scan', 'radix_sort_onesweep', 'index_put']
    ),
    (14, 'binary_cross_entropy_with_logits', ['rsub', 'mul', 'log_sigmoid', 'sub', 'mean']),
    (15, '(mse|l1|smooth_l1|huber)_loss|binary_cross_entropy|kl_div', ['loss', 'mean']),
    (16, 'max_pool2d_with_indices_backward', ['fill', 'max_pool_backward']),
    (17, 'nll_loss(2d)?_backward', ['fill', 'nll_loss_backward']),
    (18, 'cumsum|cumprod', ['scan']),
    (19, 'sort|argsort|topk|msort', ['sort', 'gather']),
    (20, 'std|var|var_mean|std_mean|norm|linalg_vector_norm', ['reduce']),
    (21, 'var_mean_backward', ['elementwise', 'elementwise']),
    (22, 'embedding|index_select', ['indexSelectLargeIndex']),
    (23, 'cat|concat|stack', ['CatArrayBatchedCopy']),
    (
        24, '_coalesce',
        ['iota', 'iota', 'merge_sort_tile', 'merge_sort_partition', 'merge_sort_merge',
         'unique_by_key_init', 'unique_by_key', 'coalesceValuesKernel']
    ),
    (
        25, 'fbgemm::permute_.*sparse_(data|features)',
        ['permute_lengths', 'scan_init', 'scan', 'scan_init', 'scan', 'permute_data']
    ),
    (26, 'fbgemm::asynchronous_.*_cumsum', ['scan_init', 'scan']),
    (
        27, 'fbgemm::block_bucketize_sparse_features',
        ['bucketize_lengths', 'scan_init', 'scan', 'scan_init', 'scan', 'bucketize_data']
    ),
    (
        28, 'torch::autograd::CppNode<.*LookupFunction.*>',
        ['linearize_index', 'radix_sort_histogram', 'radix_sort_scan', 'radix_sort_onesweep',
         'run_length_init', 'run_length', 'scan_init', 'scan', 'find_long_segments',
         'backward_cta_per_row', 'backward_warp_per_row']
    )
) AS listed (ordinal, pattern, kernels);
