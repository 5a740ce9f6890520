-- Whether an op computes nothing itself, however large its tensors: it makes a view,
-- allocates memory, or is the work of PyTorch's autograd engine around a backward op.
CREATE MACRO prediction.computes_nothing(
    -- Name of the op.
    name
) AS (
    regexp_full_match(
        name,
        'autograd::engine::.*|torch::autograd::AccumulateGrad|aten::('
        || '(new_)?empty\w*|(_unsafe_|_reshape_)?(view|alias)(_as)?|as_strided_?|detach_?|t|'
        || 'transpose|permute|expand|expand_as|squeeze|unsqueeze|select|slice|narrow|split|'
        || 'split_with_sizes|chunk|unbind|unflatten|flatten|reshape|lift_fresh|result_type|'
        || 'resolve_(conj|neg)|contiguous|to|diagonal|unfold|resize_|set_|is_\w+|numpy_T)'
    )
);
