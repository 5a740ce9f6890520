"""What ops tell about the dimensions of their tensors.

Ops tell which dimensions are equal (the inner ones of a matrix product), which belong
to the model (weights, updates of optimizers), and which to the batch (the rows of a
linear layer, the images of a convolution, the first dimension of a copy to the GPU).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from tracedb.batch.dimensions import Dimensions, reshaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracedb.batch.calls import Call, Dims

_SPARSE = (
    "_sparse_coo_tensor_unsafe",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "sparse_coo_tensor",
)
"""Ops that make sparse tensors of indices and values."""
_IMAGES = 4
"""Number of dimensions of images and of attention's inputs."""
_NO_ARGUMENT = -1
_MATRIX = 2
_BATCHED = 3
_ONEDNN_WEIGHTS = 4
"""The last argument with weights of a recurrent layer; the first is 1."""


def inferred_dimensions(calls: Sequence[Call], batch: int) -> Dimensions:
    """Infer the kinds of all dimensions from the ops of a recording."""
    found = Dimensions(batch, frozenset(dims for c in calls for dims in _stored(c)))
    for call in calls:
        _apply(found, call)
    found.settle()
    return found


def _apply(found: Dimensions, call: Call) -> None:
    """Apply the rule of an op to the dimensions of its tensors."""
    if call.is_update:
        for dims in call.tensors:
            if found.are_of_model([dims]):
                found.constant(dims)
        return
    if call.collective:
        _collective(found, call)
        return
    if call.is_copied:
        for dims in call.tensors:
            found.examples(dims)
    rule = next((r for p, r in _RULES.items() if re.fullmatch(p, call.bare_name)), None)
    if rule is not None:
        rule(found, call)


def _stored(call: Call) -> list[Dims]:
    """The indices and values of a sparse tensor that an op makes."""
    return call.tensors if call.bare_name in _SPARSE else []


def _collective(found: Dimensions, call: Call) -> None:
    """All-to-all sends examples; flat tensors of other collectives are gradients."""
    for dims in [*call.tensors, *call.results]:
        if call.collective == "all_to_all":
            found.rows(dims)
        elif len(dims) == 1:
            found.constant(dims)


def _product(found: Dimensions, a: Dims, b: Dims) -> None:
    """A [.., m, k] by B [.., k, n]."""
    if min(len(a), len(b)) < _MATRIX:
        return
    found.same((a, len(a) - 1), (b, len(b) - 2))
    result = (*a[:-1], b[-1])
    for at in range(len(a) - 1):
        found.same((a, at), (result, at))
    found.same((b, len(b) - 1), (result, len(a) - 1))
    if len(a) == len(b):
        for at in range(len(a) - 2):
            found.same((a, at), (b, at))


def _multiplied(found: Dimensions, call: Call) -> None:
    _product(found, call.dims(0), call.dims(1))


def _batches_multiplied(found: Dimensions, call: Call) -> None:
    _product(found, call.dims(1), call.dims(2))
    added, a, b = (call.dims(n) for n in range(3))
    if len(added) == len(a) == len(b) == _BATCHED:
        _aligned(found, [added, (*a[:-1], b[-1])])


def _added(found: Dimensions, call: Call) -> None:
    """`addmm` with a vector is a linear layer: its rows are examples."""
    added, a, b = (call.dims(n) for n in range(3))
    _product(found, a, b)
    if len(added) == 1 and len(a) == len(b) == _MATRIX:
        found.constant(added)
        found.constant(b)
        found.rows(a)


def _linear(found: Dimensions, call: Call) -> None:
    """Weights are the model's; rows are the batch's where only one dimension can be."""
    rows, weight, bias = (call.dims(n) for n in range(3))
    if len(weight) != _MATRIX or not rows:
        return
    found.constant(weight)
    if bias:
        found.constant(bias)
    found.constant(rows, -1)
    result = (*rows[:-1], weight[0])
    found.constant(result, -1)
    possible = [at for at in range(len(rows) - 1) if found.may_be_batch(rows, at)]
    if len(possible) == 1:
        found.rows(rows, possible[0])
    for at in range(len(rows) - 1):
        found.same((rows, at), (result, at))


def _images(found: Dimensions, call: Call) -> None:
    """Images of convolutions, norms and pools are examples; weights are the model's.

    Weights are the second argument; in a convolution's backward pass, the third, unless
    their gradient is the result.
    """
    weights = 1
    if "backward" in call.bare_name:
        weights = _NO_ARGUMENT if "backward_weight" in call.bare_name else 2
    is_convolution = "conv" in call.bare_name
    first = next(iter(call.tensors), ())
    is_one = first[:1] == (1,) and len(first) > 1
    if "batch_norm" in call.bare_name and is_one and found.batch > 1:
        _instances(found, call)
        return
    for at, argument in enumerate(call.arguments):
        for dims in argument:
            is_weight = is_convolution and at == weights
            if is_weight or len(dims) == 1:
                found.constant(dims)
            elif len(dims) >= _BATCHED:
                found.examples(dims)


def _instances(found: Dimensions, call: Call) -> None:
    """An instance norm is a batch norm of one example with batch times channels."""
    first = call.tensors[0]
    for dims in call.tensors:
        for at in range(min(len(dims), len(first))):
            found.same((first, at if len(dims) > 1 else 1), (dims, at))


def _grouped(found: Dimensions, call: Call) -> None:
    """Group norms keep a mean and a deviation of each example's groups."""
    for dims in call.tensors:
        if len(dims) > 1:
            found.examples(dims)
        else:
            found.constant(dims)


def _onednn_layer(found: Dimensions, call: Call) -> None:
    """A recurrent layer: inputs are [length, batch, size], states [batch, size].

    The backward pass gets one vector of intermediate results, which grows with the
    batch size (but for rounding).
    """
    for at, argument in enumerate(call.arguments):
        for dims in argument:
            if 0 < at <= _ONEDNN_WEIGHTS:
                found.constant(dims)
            elif len(dims) == _BATCHED:
                _only(found, dims, 1)
            else:
                found.examples(dims)


def _recurrent_layers(found: Dimensions, call: Call) -> None:
    """Of cuDNN and MIOpen: states are [layers, batch, size]; inputs may begin with it.

    One vector of intermediate results is the last of the backward pass.
    """
    single = [
        dims for argument in call.arguments if len(argument) == 1 for dims in argument
    ]
    states = next((dims for dims in single[1:] if len(dims) == _BATCHED), None)
    if states is None:
        return
    inputs, size = single[0], states[1]
    places = [at for at in range(len(inputs) - 1) if inputs[at] == size]
    for dims in single:
        if len(dims) == _BATCHED and dims[:2] == states[:2]:
            _only(found, dims, 1)
        elif dims[:-1] == inputs[:-1] and len(inputs) == _MATRIX:
            found.examples(dims)
        elif dims[:-1] == inputs[:-1] and len(places) == 1:
            _only(found, dims, places[0])
    flat = [dims for dims in single if len(dims) == 1]
    if "backward" in call.bare_name and flat:
        found.rows(flat[-1])
    for argument in call.arguments:
        for dims in argument if len(argument) > 1 else ():
            found.constant(dims)


def _recurrent_network(found: Dimensions, call: Call) -> None:
    """Vectors are biases, or how many examples are left at each place."""
    for dims in call.tensors:
        if len(dims) == 1:
            found.constant(dims)


def _only(found: Dimensions, dims: Dims, at: int) -> None:
    """One dimension belongs to the batch, all others to the model."""
    if dims[at] % found.batch == 0:
        found.rows(dims, at)
        found.constant(dims, *(other for other in range(len(dims)) if other != at))


def _aligned_loss(found: Dimensions, call: Call) -> None:
    """CTC: scores are [length, batch, classes]; all else begins with the batch."""
    scores = call.dims(1 if "backward" in call.bare_name else 0)
    for dims in call.tensors:
        if dims != scores:
            found.examples(dims)
        elif len(dims) == _BATCHED:
            _only(found, dims, 1)


def _attention(found: Dimensions, call: Call) -> None:
    """Inputs are [batch, heads, length, head size]; sums lack the last dimension."""
    of_all = [dims for dims in call.tensors if len(dims) == _IMAGES]
    for dims in call.tensors:
        if dims in of_all or dims[:2] in {one[:2] for one in of_all}:
            found.examples(dims)


def _whole_layer(found: Dimensions, call: Call) -> None:
    """A layer of a transformer in one op: inputs and masks are the batch's."""
    inputs = call.dims(0)
    for dims in call.tensors:
        if len(dims) == _BATCHED or dims == inputs[:-1]:
            found.examples(dims)
        else:
            found.constant(dims)


def _split_heads(found: Dimensions, call: Call) -> None:
    """Queries, keys and values [batch, length, 3 x features], split into heads."""
    inputs, heads = call.dims(0), call.numbers(2)
    if len(inputs) != _BATCHED or len(heads) != 1 or heads[0] < 1:
        return
    batch, length, size = inputs
    found.examples(inputs)
    _only(found, (3, batch, heads[0], length, size // heads[0] // 3), 1)
    _only(found, (batch, heads[0], length, size // heads[0] // 3), 0)


def _normalised(found: Dimensions, call: Call) -> None:
    """The last dimension and its weights are the model's; the others are kept."""
    first = next(iter(call.tensors), ())
    for dims in call.tensors:
        if len(dims) > 1:
            found.constant(dims, -1)
        elif first[-1:] == dims:
            found.constant(dims)
        if len(dims) == len(first) > 1:
            for at in range(len(dims) - 1):
                found.same((first, at), (dims, at))


def _looked_up(found: Dimensions, call: Call) -> None:
    """Indices into a table are examples."""
    table, indices = call.dims(0), call.dims(1)
    if len(table) != _MATRIX or not indices:
        return
    found.constant(table)
    found.examples(indices)
    result = (*indices, table[1])
    found.constant(result, -1)
    for at in range(len(indices)):
        found.same((indices, at), (result, at))


def _bags(found: Dimensions, call: Call) -> None:
    """Indices into a table are examples; offsets are the batch's."""
    table, indices, offsets = (call.dims(n) for n in range(3))
    if len(table) != _MATRIX:
        return
    found.constant(table)
    found.examples(indices)
    found.offsets(offsets)
    if offsets:
        result = (offsets[0] - found.are_offsets(offsets), table[1])
        found.rows(result)
        found.constant(result, 1)


def _many_bags(found: Dimensions, call: Call) -> None:
    """Lookups in several tables at once, as FBGEMM does: the last indices and offsets.

    Their vectors follow each other among those of the tables.
    """
    vectors = [tensors[0] if len(tensors) == 1 else () for tensors in call.arguments]
    pairs = [
        (indices, offsets)
        for indices, offsets in pairwise(vectors)
        if len(indices) == 1 and indices[0] and indices[0] % found.batch == 0
        if len(offsets) == 1 and found.are_offsets(offsets)
    ]
    if not pairs:
        return
    for dims in vectors:
        if dims in pairs[-1]:
            found.offsets(dims)
        else:
            found.constant(dims)


def _looked_up_gradient(found: Dimensions, call: Call) -> None:
    """The gradient of lookups in several tables has a row per example."""
    for dims in call.tensors:
        if len(dims) == _MATRIX:
            found.examples(dims)


def _permuted_tables(found: Dimensions, call: Call) -> None:
    """Of lengths [tables, batch] and the indices of all, other tables come first."""
    lengths, *rest = (call.dims(n) for n in range(1, 4))
    if len(lengths) == _MATRIX:
        _only(found, lengths, 1)
    for dims in rest:
        found.rows(dims)


def _bags_backward(found: Dimensions, call: Call) -> None:
    """Vectors have an element per index, or per bag."""
    gradient, *vectors = (call.dims(n) for n in range(5))
    if len(gradient) == _MATRIX:
        found.rows(gradient)
        found.constant(gradient, 1)
    for dims in vectors:
        found.rows(dims)


def _looked_up_backward(found: Dimensions, call: Call) -> None:
    gradient, indices = call.dims(0), call.dims(1)
    if gradient and gradient[:-1] == indices:
        found.constant(gradient, -1)
        for at in range(len(indices)):
            found.same((gradient, at), (indices, at))


def _sparse_gradient(found: Dimensions, call: Call) -> None:
    """A table's gradient has a row per index: the gradient of that lookup."""
    gradient, indices = call.dims(0), call.dims(1)
    if len(gradient) > 1 and len(indices) == 1:
        found.rows(indices)
        found.same((indices, 0), (gradient, 0))
        found.constant(gradient, -1)


def _sparse_made(found: Dimensions, call: Call) -> None:
    """A sparse tensor of a table has as many rows of values as indices."""
    indices, values = (*call.tensors, (), ())[:2]
    if len(indices) == len(values) == _MATRIX:
        found.same((indices, 1), (values, 0))
        found.constant(values, -1)


def _losses(found: Dimensions, call: Call) -> None:
    """Losses compare examples; scores of all pairs of a batch have two of them."""
    for dims in call.tensors:
        found.rows(dims)
        if len(dims) == _MATRIX and dims[0] != dims[1]:
            found.constant(dims, 1)


def _aligned(found: Dimensions, tensors: Sequence[Dims]) -> None:
    """Dimensions agree from the last one, where sizes are equal (broadcasting)."""
    for dims in tensors[1:]:
        for back in range(1, min(len(dims), len(tensors[0])) + 1):
            first = (tensors[0], len(tensors[0]) - back)
            found.same(first, (dims, len(dims) - back))


def _parts(found: Dimensions, call: Call) -> None:
    """A part along one dimension keeps the others; `select` drops that one."""
    dims, given = call.dims(0), call.numbers(1)
    if not dims or len(given) != 1:
        return
    at = given[0] % len(dims)
    if call.bare_name == "select":
        _without(found, dims, [at], is_kept=False)
        return
    bounds = [next(iter(call.numbers(n)), None) for n in (2, 3, 4)]
    first, last, step = (
        bound if bound is not None else usual
        for bound, usual in zip(bounds, (0, dims[at], 1), strict=True)
    )
    size = len(range(dims[at])[first : last : max(step, 1)])
    part = (*dims[:at], size, *dims[at + 1 :])
    for n in range(len(dims)):
        found.same((dims, n), (part, n))


def _reduced(found: Dimensions, call: Call) -> None:
    """A sum over some dimensions keeps the others."""
    dims, given = call.dims(0), call.numbers(1)
    if dims and given and len(call.values) > _MATRIX:
        places = [at % len(dims) for at in given]
        _without(found, dims, places, is_kept=call.values[2] == "True")


def _without(
    found: Dimensions, dims: Dims, places: Sequence[int], *, is_kept: bool
) -> None:
    """A tensor without some dimensions, or with size 1 there."""
    left = [at for at in range(len(dims)) if at not in places]
    result = tuple(
        1 if at in places else size
        for at, size in enumerate(dims)
        if is_kept or at not in places
    )
    for new, at in enumerate(left):
        found.same((dims, at), (result, at if is_kept else new))


def _stacked(found: Dimensions, call: Call) -> None:
    """Tensors of one shape along a new dimension."""
    given = call.numbers(1)
    if not call.tensors or len({*call.tensors}) > 1 or len(given) != 1:
        return
    dims = call.tensors[0]
    at = given[0] % (len(dims) + 1)
    whole = (*dims[:at], len(call.tensors), *dims[at:])
    for n in range(len(dims)):
        found.same((dims, n), (whole, n + (n >= at)))


def _split(found: Dimensions, call: Call) -> None:
    """Equal parts along one dimension; chunks are given by their number."""
    dims, sizes, given = call.dims(0), call.numbers(1), call.numbers(2)
    if not dims or len(sizes) != 1 or not sizes[0] or len(given) != 1:
        return
    at = given[0] % len(dims)
    size = -(-dims[at] // sizes[0]) if "chunk" in call.bare_name else sizes[0]
    part = (*dims[:at], size, *dims[at + 1 :])
    for n in range(len(dims)):
        found.same((dims, n), (part, n))


def _indexed(found: Dimensions, call: Call) -> None:
    """Elements at places: dimensions without an index are kept."""
    dims, values = call.dims(0), call.dims(2)
    places = call.arguments[1] if len(call.arguments) > 1 else ()
    kept = next((at for at, place in enumerate(places) if place), 0)
    if not dims or not kept or not all(places[kept:]):
        return
    inner = dims[len(places) :]
    result = (*dims[:kept], *places[kept], *inner)
    for at in range(kept):
        found.same((dims, at), (result, at))
    for back in range(1, len(inner) + 1):
        found.same((dims, len(dims) - back), (result, len(result) - back))
    if values:
        _aligned(found, [result, values])


def _elementwise(found: Dimensions, call: Call) -> None:
    _aligned(found, call.tensors)


def _joined(found: Dimensions, call: Call) -> None:
    """Concatenation along a known dimension."""
    parts = [dims for dims in call.tensors if len(dims) == len(call.tensors[0])]
    given = call.numbers(1)
    if len(parts) < len(call.tensors) or not parts or len(given) != 1:
        return
    at = given[0] % len(parts[0])
    whole = tuple(
        sum(dims[n] for dims in parts) if n == at else size
        for n, size in enumerate(parts[0])
    )
    for dims in parts:
        for n in range(len(dims)):
            if n != at:
                found.same((dims, n), (whole, n))
    found.folded((whole, at), [(dims, at) for dims in parts])


def _viewed(found: Dimensions, call: Call) -> None:
    dims, given = call.dims(0), call.numbers(1)
    size = 1
    for one in given:
        size *= max(one, 1)
    elements = 1
    for one in dims:
        elements *= one
    result = tuple(elements // size if one == -1 else one for one in given)
    reshaped(found, dims, result)


def _flattened(found: Dimensions, call: Call) -> None:
    dims, given = call.dims(0), [*call.numbers(1), *call.numbers(2)]
    if not dims or len(given) != _MATRIX:
        return
    low, high = (one % len(dims) for one in given)
    size = 1
    for one in dims[low : high + 1]:
        size *= one
    reshaped(found, dims, (*dims[:low], size, *dims[high + 1 :]))


def _turned(found: Dimensions, call: Call) -> None:
    """Two dimensions are transposed."""
    dims = call.dims(0)
    given = [*call.numbers(1), *call.numbers(2)] if len(call.values) > 1 else []
    if call.bare_name in {"t", "numpy_T"}:
        given = [0, 1]
    if len(dims) < _MATRIX or len(given) != _MATRIX:
        return
    order = list(range(len(dims)))
    one, other = (at % len(dims) for at in given)
    order[one], order[other] = order[other], order[one]
    _ordered(found, dims, order)


def _permuted(found: Dimensions, call: Call) -> None:
    dims, given = call.dims(0), call.numbers(1)
    if dims and len(given) == len(dims):
        _ordered(found, dims, [at % len(dims) for at in given])


def _ordered(found: Dimensions, dims: Dims, order: Sequence[int]) -> None:
    result = tuple(dims[at] for at in order)
    for at, source in enumerate(order):
        found.same((dims, source), (result, at))


def _expanded(found: Dimensions, call: Call) -> None:
    dims, given = call.dims(0), call.numbers(1)
    if not dims or len(given) < len(dims):
        return
    missing = len(given) - len(dims)
    sizes = enumerate(given, -missing)
    _aligned(found, [dims, tuple(dims[at] if n == -1 else n for at, n in sizes)])


def _widened(found: Dimensions, call: Call) -> None:
    """`unsqueeze` and `squeeze` of one dimension."""
    dims, given = call.dims(0), call.numbers(1)
    if not dims or len(given) != 1:
        return
    is_wider = call.bare_name == "unsqueeze"
    at = given[0] % (len(dims) + is_wider)
    if is_wider:
        narrow, wide = dims, (*dims[:at], 1, *dims[at:])
    elif dims[at] == 1:
        narrow, wide = (*dims[:at], *dims[at + 1 :]), dims
    else:
        return
    for n in range(len(narrow)):
        found.same((narrow, n), (wide, n + (n >= at)))


_ELEMENTWISE = (
    "add|sub|rsub|mul|div|where|masked_fill|copy|pow|maximum|minimum|eq|ne|lt|le|gt|ge"
    "|logical_\\w+|bitwise_\\w+|addcmul|addcdiv|lerp|\\w+_backward_data|\\w+_backward"
)
_RULES: dict[str, Callable[[Dimensions, Call], None]] = {
    "linear": _linear,
    "addmm|_addmm_activation": _added,
    "mm|bmm|matmul": _multiplied,
    "baddbmm": _batches_multiplied,
    r"\w*conv\w*|\w*batch_norm\w*|\w*pool\w*|upsample\w*": _images,
    r"native_group_norm\w*": _grouped,
    r"mkldnn_rnn_layer\w*": _onednn_layer,
    r"(_cudnn|miopen)_rnn(_backward)?": _recurrent_layers,
    r"lstm|gru|rnn_(tanh|relu)": _recurrent_network,
    r"_ctc_loss\w*": _aligned_loss,
    r"_native_multi_head_attention|_transformer_encoder_layer_fwd": _whole_layer,
    "_transform_bias_rescale_qkv": _split_heads,
    r"\w*attention\w*": _attention,
    r"\w*(layer|rms)_?norm\w*": _normalised,
    r"(split|dense|ssd)_embedding_\w*lookup\w*": _many_bags,
    r"permute_2D_sparse_data\w*": _permuted_tables,
    r"CppNode<SplitLookupFunction_\w+>": _looked_up_gradient,
    "embedding": _looked_up,
    "embedding_dense_backward": _looked_up_backward,
    "embedding_sparse_backward": _sparse_gradient,
    "|".join(_SPARSE): _sparse_made,
    "_embedding_bag_dense_backward|_embedding_bag_backward": _bags_backward,
    "_?embedding_bag(_forward_only)?": _bags,
    r"nll_loss\w*|cross_entropy\w*|\w+_loss|binary_cross_entropy\w*": _losses,
    "index|index_put|_index_put_impl": _indexed,
    "select|slice": _parts,
    "sum|mean|amax|amin|logsumexp": _reduced,
    "stack": _stacked,
    "split|chunk|unsafe_split|unsafe_chunk": _split,
    "cat|concat": _joined,
    "view|reshape|_unsafe_view|_reshape_alias": _viewed,
    "flatten": _flattened,
    "t|transpose|numpy_T|swapaxes": _turned,
    "permute": _permuted,
    "expand": _expanded,
    "unsqueeze|squeeze": _widened,
    _ELEMENTWISE: _elementwise,
}
"""The rules by a pattern of the bare name; the first match counts."""
