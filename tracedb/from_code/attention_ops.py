"""The ops that a GPU dispatches for attention, and for its gradients, by their way.

They are those that `attention` calls in code, for graphs, where a CPU took another way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from tracedb.from_code.attention_way import FLASH, HALF, MATH, PADDED, Operand
from tracedb.from_code.ops import Argument, Dispatched, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.from_code.attention_way import Question

_ROWS = 32
"""The memory-efficient kernel pads rows of its sums to a multiple of this."""
_NUMBER = Shape((), "float", 4)
_SEED = Shape((), "long int", 8)
_SEEDS = [Shape((2,), "torch.uint64", 8), Shape((), "torch.uint64", 8)]
"""The state of random numbers, as the two fused ways hold it."""

Heads = list[Shape]
"""Queries, keys and values."""


@dataclass(frozen=True)
class Pair:
    """The ops of the forward pass, and those of each function of the backward pass."""

    forward: list[Dispatched]
    backward: list[tuple[str, list[Dispatched]]]


def gpu_op(name: str, given: Sequence[Argument], results: list[Shape]) -> Dispatched:
    """An op of PyTorch that runs on the GPU."""
    return Dispatched(
        f"aten::{name}", list(given), results, is_on_gpu=True, is_view=False
    )


def attention_ops(question: Question, options: list[Argument]) -> Pair:
    """The ops of the way that the GPU takes.

    The options are the probability of dropout, whether it is causal, and the scale.
    """
    heads = [_shape(one) for one in (question.query, question.key, question.value)]
    dropout, is_causal, scale = (*options, "", "", "")[:3]
    way = question.way()
    if way == MATH:
        return _Products(question, heads, dropout).pair()
    if way == FLASH:
        return _flash(heads, dropout, is_causal, scale)
    return _efficient(question, heads, dropout, is_causal, scale)


def _shape(operand: Operand) -> Shape:
    return Shape(operand.dims, operand.dtype, operand.element_bytes)


def _flash(
    heads: Heads, dropout: Argument, is_causal: Argument, scale: Argument
) -> Pair:
    """Heads are padded to a multiple of eight."""
    size = heads[0].dims[-1]
    padding = -size % PADDED
    wide = [replace(one, dims=(*one.dims[:-1], size + padding)) for one in heads]
    pairs = [*zip(heads, wide, strict=True)] if padding else []
    padded = [
        op
        for narrow, one in pairs
        for op in _put(gpu_op("fill_", [one, "0"], [one]), narrow)
    ]
    result = wide[0]
    sums = Shape(result.dims[:-1], "float", 4)
    full = "_scaled_dot_product_flash_attention"
    lengths = [str(one.dims[-2]) for one in wide[:2]]
    options = [dropout, is_causal]
    given: list[Argument] = [result, *wide, result, sums, "", "", *lengths]
    given += [*options, *_SEEDS, scale]
    backward = gpu_op(f"{full}_backward", given, wide)
    functions = [("ScaledDotProductFlashAttentionBackward0", [backward])]
    if padding:
        zeros = gpu_op("zeros", [], [result])
        functions.insert(0, ("SliceBackward0", _put(zeros, heads[0])))
        narrowed = [gpu_op("clone", [narrow], [narrow]) for narrow, _ in pairs]
        functions += [("ConstantPadNdBackward0", [op]) for op in narrowed]
    results = [result, sums, *_SEEDS]
    made = gpu_op(full, [*wide, *options, "False", scale], results)
    return Pair([*padded, made], functions)


def _efficient(
    question: Question,
    heads: Heads,
    dropout: Argument,
    is_causal: Argument,
    scale: Argument,
) -> Pair:
    *outer, length, _ = heads[0].dims
    sums = Shape((*outer, -(-length // _ROWS) * _ROWS), "float", 4)
    mask: Argument = ""
    prepared: list[Dispatched] = []
    if question.mask is not None:
        mask = replace(heads[0], dims=(*outer, length, heads[1].dims[-2]))
        prepared = _numbers(question.mask, heads[0])
    result = replace(heads[0], dims=(*heads[0].dims[:-1], heads[2].dims[-1]))
    trained = str(question.is_trained)
    given: list[Argument] = [*heads, mask, trained, dropout, is_causal, scale]
    full = "_scaled_dot_product_efficient_attention"
    saved = [result, *heads, mask, result, sums, _SEED, _SEED]
    more = [dropout, "[True, True, True, False]", is_causal, scale]
    backward = gpu_op(f"{full}_backward", [*saved, *more], heads)
    return Pair(
        [*prepared, gpu_op(full, given, [result, sums, _SEED, _SEED])],
        [("ScaledDotProductEfficientAttentionBackward0", [backward])],
    )


def _numbers(mask: Operand, like: Shape) -> list[Dispatched]:
    """A mask of booleans becomes what is added to scores."""
    if mask.dtype != "bool":
        return []
    chosen = replace(like, dims=mask.dims)
    lowest = gpu_op("full", [], [replace(like, dims=())])
    zero = gpu_op("scalar_tensor", [], [replace(like, dims=())])
    return [lowest, zero, gpu_op("where", [_shape(mask), _NUMBER, _NUMBER], [chosen])]


@dataclass(frozen=True)
class _Products:
    """Two products and a softmax; half precision is computed in fp32."""

    question: Question
    heads: Heads
    dropout: Argument

    def pair(self) -> Pair:
        """The ops of both passes."""
        query, key, value = self._wide
        scores = _sized(query, *query.dims[:-1], key.dims[-2])
        turned = _turned(key)
        forward = [
            *self._mask(scores),
            *self._cast(self.heads, self._narrow),
            gpu_op("mul", [query, ""], [query]),
            *self._grouped(),
            gpu_op("mul", [turned, ""], [turned]),
            _product(query, turned),
            *self._added(scores),
            *_softmax(scores),
            *self._dropped(scores),
            *self._cast([scores], [scores], back=True),
            _product(scores, value),
            *self._cast([query], [query], back=True),
        ]
        functions = self._backward(scores)
        return Pair(forward, [(name, ops) for name, ops in functions if ops])

    def _backward(self, scores: Shape) -> Iterator[tuple[str, list[Dispatched]]]:
        query, key, value = self._wide
        made = _sized(query, *query.dims[:-1], value.dims[-1])
        yield "ToCopyBackward0", self._cast([made], [made])
        first = [_product(_turned(scores), made), _product(made, _turned(value))]
        yield "BmmBackward0", first
        if self.question.has_dropout:
            mask = replace(scores, dtype="bool", element_bytes=1)
            given: list[Argument] = [scores, mask, ""]
            dropped = gpu_op("native_dropout_backward", given, [scores])
            yield "NativeDropoutBackward0", [dropped]
        softmax = gpu_op("_softmax_backward_data", [scores, scores, ""], [scores])
        yield "SafeSoftmaxBackward0", [softmax]
        turned = _turned(key)
        yield (
            "BmmBackward0",
            [_product(_turned(query), scores), _product(scores, key)],
        )
        yield "MulBackward0", [gpu_op("mul", [turned, ""], [turned])]
        for grouped, (narrow, _) in zip(self._of_groups, self._shared, strict=True):
            yield "ExpandBackward0", [gpu_op("sum", [grouped], [narrow])]
        yield "MulBackward0", [gpu_op("mul", [query, ""], [query])]
        for one in reversed(self._narrow):
            yield "ToCopyBackward0", self._cast([one], [one], back=True)

    @property
    def _narrow(self) -> Heads:
        """The heads in the type in which they are computed."""
        if self.heads[0].dtype not in HALF:
            return self.heads
        return [Shape(one.dims, "float", 4) for one in self.heads]

    @property
    def _wide(self) -> Heads:
        """The same, with the keys and values of groups repeated."""
        query, *shared = self._narrow
        if not self.question.is_grouped:
            return self._narrow
        count = query.dims[1]
        return [query, *(_sized(t, t.dims[0], count, *t.dims[2:]) for t in shared)]

    @property
    def _shared(self) -> list[tuple[Shape, Shape]]:
        """Keys and values that are shared by a group, and each for itself."""
        pairs = zip(self._narrow[1:], self._wide[1:], strict=True)
        return list(pairs) if self.question.is_grouped else []

    @property
    def _of_groups(self) -> Heads:
        return [
            _sized(n, *n.dims[:2], w.dims[1] // n.dims[1], *n.dims[2:])
            for n, w in self._shared
        ]

    def _grouped(self) -> list[Dispatched]:
        return [gpu_op("clone", [one], [one]) for one in self._of_groups]

    def _cast(
        self, given: Heads, wide: Heads, *, back: bool = False
    ) -> list[Dispatched]:
        """Copies in fp32, or `back` from it, if heads are of half precision."""
        if self.heads[0].dtype not in HALF:
            return []
        narrow = [replace(self.heads[0], dims=one.dims) for one in given]
        pairs = zip(narrow, wide, strict=True)
        ends = [(w, n) if back else (n, w) for n, w in pairs]
        return [gpu_op("_to_copy", [one], [into]) for one, into in ends]

    def _mask(self, scores: Shape) -> list[Dispatched]:
        """What makes the mask that is added to scores."""
        if self.question.mask is not None:
            return _numbers(self.question.mask, self.heads[0])
        if not self.question.is_causal:
            return []
        seen = Shape(scores.dims[-2:], "bool", 1)
        made = [gpu_op("ones", [], [seen]), gpu_op("tril", [seen, "0"], [seen])]
        return [*made, *_numbers(Operand(seen.dims, "bool", 1), scores)]

    def _added(self, scores: Shape) -> list[Dispatched]:
        mask = self.question.mask
        if mask is not None:
            kind = self.heads[0] if mask.dtype == "bool" else _shape(mask)
            added = replace(kind, dims=mask.dims)
        elif self.question.is_causal:
            added = replace(scores, dims=scores.dims[-2:])
        else:
            return []
        return [gpu_op("add_", [scores, added, "1"], [scores])]

    def _dropped(self, scores: Shape) -> list[Dispatched]:
        if not self.question.has_dropout:
            return []
        mask = replace(scores, dtype="bool", element_bytes=1)
        given: list[Argument] = [scores, self.dropout, "True"]
        return [gpu_op("native_dropout", given, [scores, mask])]


def _sized(like: Shape, *dims: int) -> Shape:
    return replace(like, dims=dims)


def _softmax(scores: Shape) -> list[Dispatched]:
    """A softmax of rows, and zeros where a whole row is masked."""
    mask = replace(scores, dtype="bool", element_bytes=1)
    rows = _sized(mask, *mask.dims[:-1], 1)
    zero = _sized(scores)
    return [
        gpu_op("_softmax", [scores, "-1", "False"], [scores]),
        gpu_op("isneginf", [scores], [mask]),
        gpu_op("all", [mask, "-1", "True"], [rows]),
        gpu_op("scalar_tensor", [], [zero]),
        gpu_op("where", [rows, zero, scores], [scores]),
    ]


def _put(filled: Dispatched, part: Shape) -> list[Dispatched]:
    """Fill a tensor, and copy a part of it."""
    return [filled, gpu_op("copy_", [part, part], [part])]


def _turned(one: Shape) -> Shape:
    return _sized(one, *one.dims[:-2], one.dims[-1], one.dims[-2])


def _product(first: Shape, second: Shape) -> Dispatched:
    """The product of matrices; those of all heads are computed as a batch."""
    (rows, inner), columns = first.dims[-2:], second.dims[-1]
    count = prod(first.dims[:-2])
    batches = _sized(first, count, rows, inner), _sized(second, count, inner, columns)
    return gpu_op("bmm", batches, [_sized(first, count, rows, columns)])
