"""Infer which dimensions of recorded tensors are batch dimensions, from the ops.

A recording has the shapes of an op's tensors, not their identities, so tensors of one
shape are treated alike. Ops tell which dimensions are equal (the inner ones of a matrix
product), which belong to the model (weights, updates of optimizers), and which to the
batch (the rows of a linear layer, the images of a convolution, the first dimension of a
copy to the GPU). A dimension that is both, or a multiple of the batch size that is
neither, is unknown; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Dims = tuple[int, ...]
Place = tuple[Dims, int]
"""A dimension: a shape, and an index into it."""

CONSTANT, BATCH, UNKNOWN, BOTH = "constant", "batch", "unknown", "both"

_SPARSE = (
    "_sparse_coo_tensor_unsafe",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "sparse_coo_tensor",
)
"""Ops that make sparse tensors of indices and values."""
_IMAGES = 4
"""Number of dimensions of images and of attention's inputs."""
_MATRIX = 2
_BATCHED = 3


@dataclass(frozen=True)
class Call:
    """An op with its shapes.

    `is_update`: it belongs to an optimizer, or stores a gradient. `is_copied`: it
    copies to the GPU. `collective` is the kind of its collective, if any.
    """

    name: str
    arguments: tuple[tuple[Dims, ...], ...]
    values: tuple[str, ...] = ()
    is_update: bool = False
    is_copied: bool = False
    collective: str = ""

    @property
    def bare_name(self) -> str:
        """The name without its namespace and the suffix of in-place ops."""
        return re.sub(r"(?<=[^_])_$", "", self.name.rpartition("::")[2])

    @property
    def tensors(self) -> list[Dims]:
        """The shapes of all tensors, lists flattened."""
        return [dims for argument in self.arguments for dims in argument if dims]

    def dims(self, argument: int) -> Dims:
        """The shape of an argument; empty if it has none."""
        if argument >= len(self.arguments):
            return ()
        shapes = self.arguments[argument]
        return shapes[0] if len(shapes) == 1 else ()

    def numbers(self, argument: int) -> list[int]:
        """The integers in an argument's value."""
        if argument >= len(self.values):
            return []
        return [int(n) for n in re.findall(r"-?\d+", self.values[argument])]


def shapes(text: str | None) -> tuple[tuple[Dims, ...], ...]:
    """The shapes of each argument's tensors; one unless it is a list.

    None at all if one of them has a size that is no whole number, as in
    `prediction.op_signature`.

    >>> shapes("[[2, 3], [], [[4], [5]]]")
    (((2, 3),), (), ((4,), (5,)))
    >>> shapes('[[2, 3], ["?"]]')
    ()
    """
    found = []
    for one in json.loads(text) if text else []:
        is_list = isinstance(one, list) and one and isinstance(one[0], list)
        tensors = one if is_list else [one] if one else []
        if not all(map(_is_shape, tensors)):
            return ()
        found.append(tuple(map(tuple, tensors)))
    return tuple(found)


def _is_shape(dims: object) -> bool:
    return isinstance(dims, list) and all(type(n) is int and n >= 0 for n in dims)


@dataclass
class Dimensions:
    """The kinds of all dimensions, for one batch size."""

    batch: int
    _above: dict[Place, Place] = field(default_factory=dict)
    _kinds: dict[Place, set[str]] = field(default_factory=dict)
    _folded: dict[tuple[Place, tuple[Place, ...]], None] = field(default_factory=dict)
    _sparse: frozenset[Dims] = frozenset()
    """Shapes of the indices and values of sparse tensors, as of gradients."""

    @classmethod
    def of(cls, calls: Sequence[Call], batch: int) -> Dimensions:
        """Infer the kinds from the ops of a recording."""
        found = cls(batch, _sparse=frozenset(d for c in calls for d in _stored(c)))
        for call in calls:
            _apply(found, call)
        found._settle()
        return found

    def kind(self, place: Place) -> str:
        """The kind of a dimension: `BATCH`, `CONSTANT`, `UNKNOWN` or `BOTH`.

        A size that is not a multiple of the batch size is constant, except for a vector
        of offsets, which may have one element more or less, and for sparse tensors: how
        many values these have may follow from values.
        """
        dims, at = place
        kinds = self._kinds.get(self._root(place), set())
        if dims[at] % self.batch:
            is_near = (dims[at] + 1) % self.batch in {0, 2 % self.batch}
            is_list = len(dims) == 1 and dims[at] > 1 and is_near
            may_grow = is_list or (dims in self._sparse and dims[at] > 1)
            return UNKNOWN if may_grow and not kinds else CONSTANT
        if not dims[at]:
            return CONSTANT
        if len(kinds) > 1:
            return BOTH
        return next(iter(kinds), UNKNOWN)

    def are_of_model(self, call_dims: Iterable[Dims]) -> bool:
        """Whether an update of these tensors has sizes of the model only."""
        return self._sparse.isdisjoint(call_dims)

    def same(self, one: Place, other: Place) -> None:
        """Record that two dimensions are the same, if their sizes agree."""
        (dims, at), (others, place) = one, other
        if dims[at] != others[place] or dims[at] == 1:
            return
        above, below = self._root(one), self._root(other)
        if above != below:
            self._above[below] = above
            self._kinds.setdefault(above, set()).update(self._kinds.pop(below, ()))

    def constant(self, dims: Dims, *places: int) -> None:
        """Record that dimensions (default all) belong to the model."""
        for at in places or range(len(dims)):
            self._mark((dims, at % len(dims)), CONSTANT)

    def rows(self, dims: Dims, at: int = 0) -> None:
        """Record that a dimension is the batch's, if it is a multiple of its size."""
        if len(dims) > at and dims[at] and dims[at] % self.batch == 0:
            self._mark((dims, at), BATCH)

    def examples(self, dims: Dims) -> None:
        """Record that only the first dimension of a tensor belongs to the batch."""
        if dims and dims[0] and dims[0] % self.batch == 0:
            self.rows(dims)
            if len(dims) > 1:
                self.constant(dims, *range(1, len(dims)))

    def folded(self, whole: Place, parts: Sequence[Place]) -> None:
        """Record that a dimension is the product or sum of several."""
        self._folded[whole, tuple(parts)] = None

    def _mark(self, place: Place, kind: str) -> bool:
        kinds = self._kinds.setdefault(self._root(place), set())
        is_new = kind not in kinds
        kinds.add(kind)
        return is_new

    def _root(self, place: Place) -> Place:
        while (above := self._above.get(place)) is not None:
            place = above
        return place

    def _settle(self) -> None:
        """Propagate kinds through folded dimensions until nothing changes."""
        while any(self._follow(whole, parts) for whole, parts in self._folded):
            pass

    def _follow(self, whole: Place, parts: Sequence[Place]) -> bool:
        kinds = [self.kind(part) for part in parts]
        around = self.kind(whole)
        new: list[tuple[Place, str]] = []
        if all(kind == CONSTANT for kind in kinds):
            new.append((whole, CONSTANT))
        elif BATCH in kinds:
            new.append((whole, BATCH))
        unknown = [p for p, kind in zip(parts, kinds, strict=True) if kind == UNKNOWN]
        is_found = around == BATCH and kinds.count(BATCH) == 1
        if around == CONSTANT or is_found:
            new += [(part, CONSTANT) for part in unknown]
        elif around == BATCH and BATCH not in kinds and len(unknown) == 1:
            new.append((unknown[0], BATCH))
        return any(self._mark(place, kind) for place, kind in new)


def reshaped(found: Dimensions, one: Dims, other: Dims) -> None:
    """Relate the dimensions of two shapes whose elements are in the same order.

    >>> found = Dimensions(4)
    >>> found.rows((8, 6))
    >>> reshaped(found, (8, 6), (2, 4, 6))
    >>> found.constant((2, 4, 6), 0)
    >>> found._settle()
    >>> found.kind(((2, 4, 6), 1))
    'batch'
    """
    for left, right in _pieces(one, other):
        of_one = [(one, at) for at in left]
        of_other = [(other, at) for at in right]
        if len(of_one) == len(of_other) == 1:
            found.same(of_one[0], of_other[0])
        elif len(of_one) == 1:
            found.folded(of_one[0], of_other)
        elif len(of_other) == 1:
            found.folded(of_other[0], of_one)


def _pieces(one: Dims, other: Dims) -> Iterator[tuple[list[int], list[int]]]:
    """Groups of dimensions with equal products, without those of size 1."""
    left = [at for at, size in enumerate(one) if size != 1]
    right = [at for at, size in enumerate(other) if size != 1]
    while left and right:
        ours, theirs = [left.pop(0)], [right.pop(0)]
        product, wanted = one[ours[0]], other[theirs[0]]
        while product != wanted:
            if product < wanted and left:
                ours.append(left.pop(0))
                product *= one[ours[-1]]
            elif product > wanted and right:
                theirs.append(right.pop(0))
                wanted *= other[theirs[-1]]
            else:
                return
        yield ours, theirs


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
    for dims in call.tensors:
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
    possible = [at for at, size in enumerate(rows[:-1]) if size % found.batch == 0]
    if len(possible) == 1:
        found.rows(rows, possible[0])
    for at in range(len(rows) - 1):
        found.same((rows, at), (result, at))


def _images(found: Dimensions, call: Call) -> None:
    """Images of convolutions, norms and pools are examples; weights are the model's.

    Weights are the second argument; in a convolution's backward pass, the third.
    """
    is_backward = "backward" in call.bare_name
    is_convolution = "conv" in call.bare_name
    for at, argument in enumerate(call.arguments):
        for dims in argument:
            is_weight = is_convolution and at == (2 if is_backward else 1)
            if is_weight or len(dims) == 1:
                found.constant(dims)
            elif len(dims) >= _BATCHED:
                found.examples(dims)


def _attention(found: Dimensions, call: Call) -> None:
    """Inputs are [batch, heads, length, head size]; sums lack the last dimension."""
    of_all = [dims for dims in call.tensors if len(dims) == _IMAGES]
    for dims in call.tensors:
        if dims in of_all or dims[:2] in {one[:2] for one in of_all}:
            found.examples(dims)


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
    found.rows(offsets)
    if offsets:
        result = (offsets[0], table[1])
        found.same((offsets, 0), (result, 0))
        found.constant(result, 1)


def _bags_backward(found: Dimensions, call: Call) -> None:
    gradient, *indices = (call.dims(n) for n in range(3))
    if len(gradient) == _MATRIX:
        found.rows(gradient)
        found.constant(gradient, 1)
    for dims in indices:
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
    if call.bare_name == "unsqueeze":
        at = given[0] % (len(dims) + 1)
        reshaped(found, dims, (*dims[:at], 1, *dims[at:]))
    elif dims[given[0] % len(dims)] == 1:
        at = given[0] % len(dims)
        reshaped(found, dims, (*dims[:at], *dims[at + 1 :]))


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
    r"\w*attention\w*": _attention,
    r"\w*(layer|rms)_?norm\w*": _normalised,
    "embedding": _looked_up,
    "embedding_dense_backward": _looked_up_backward,
    "embedding_sparse_backward": _sparse_gradient,
    "|".join(_SPARSE): _sparse_made,
    "_embedding_bag_dense_backward|_embedding_bag_backward": _bags_backward,
    "_?embedding_bag(_forward_only)?": _bags,
    r"nll_loss\w*|cross_entropy\w*|\w+_loss|binary_cross_entropy\w*": _losses,
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


def recorded_batch(calls: Sequence[Call]) -> int | None:
    """The batch size of a recording, if its inputs agree on one.

    Copies to the GPU count first, then images, indices, bags and linear layers.
    """
    for size_of in _SIZES:
        sizes = {size for call in calls if (size := size_of(call))}
        if sizes:
            return sizes.pop() if len(sizes) == 1 else None
    return None


def _copied(call: Call) -> int:
    dims = next(iter(call.tensors), ())
    is_shaped = call.is_copied and not call.is_update and len(dims) >= _MATRIX
    return dims[0] if is_shaped else 0


def _imaged(call: Call) -> int:
    dims = call.dims(0)
    is_image = re.fullmatch(r"conv\dd|convolution", call.bare_name)
    return dims[0] if is_image and len(dims) >= _BATCHED else 0


def _indexed(call: Call) -> int:
    dims = call.dims(1)
    is_looked_up = call.bare_name == "embedding" and len(dims) >= _MATRIX
    return dims[0] if is_looked_up else 0


def _bagged(call: Call) -> int:
    dims = call.dims(2)
    return dims[0] if call.bare_name == "_embedding_bag" and dims else 0


def _layered(call: Call) -> int:
    is_added = call.bare_name == "addmm" and len(call.dims(0)) == 1
    dims = call.dims(1 if is_added else 0)
    is_layer = is_added or call.bare_name == "linear"
    return dims[0] if is_layer and len(dims) == _MATRIX else 0


_SIZES = (_copied, _imaged, _indexed, _bagged, _layered)
"""Sources of the batch size, the most reliable first."""
