"""Replace ops that only CPUs dispatch by those that a GPU dispatches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracedb.from_code.graph_values import arguments, shapes
from tracedb.from_code.launches import BAGS
from tracedb.from_code.ops import Argument, Dispatched, Shape
from tracedb.from_code.program import BACKWARD, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracedb.from_code.graph import GraphNode

FLASH_HEAD = 256
"""Largest head size that FlashAttention takes."""

NAMES = {
    "aten::mkldnn_linear": "aten::linear",
    "mkldnn::_linear_pointwise": "aten::linear",
    "mkl::_mkl_linear": "aten::linear",
    "aten::mkldnn_convolution": "aten::convolution",
    "mkldnn::_convolution_pointwise": "aten::convolution",
    "aten::mkldnn_max_pool2d": "aten::max_pool2d_with_indices",
    "aten::mkldnn_adaptive_avg_pool2d": "aten::_adaptive_avg_pool2d",
}
"""Ops of oneDNN and MKL, and PyTorch ops that take the same tensors."""

_BAGS = ("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
_OF_BAGS = 3
"""The argument of their gradient that has the bag of each index."""
_ROWS = 32
"""The memory-efficient kernel pads rows of its sums to a multiple of this."""
_HALF = ("c10::Half", "c10::BFloat16")
_LISTS = frozenset(
    f"aten::{name}"
    for name in (
        "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "copy", "div",
        "exp", "lerp", "log", "maximum", "minimum", "mul", "neg", "pow", "reciprocal",
        "sign", "sqrt", "sub", "zero",
    )
)  # fmt: skip
"""Ops that have a `_foreach` variant."""


@dataclass(frozen=True)
class Pair:
    """The ops of the forward and backward pass, and the backward function's name."""

    forward: Dispatched
    backward: Dispatched
    function: str


@dataclass
class Replaced:
    """Replacements of CPU ops, by node id or the backward op's sequence number."""

    forward: dict[int, Pair] = field(default_factory=dict)
    backward: dict[int, Pair] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tops: Iterable[GraphNode]) -> Replaced:
        """Find the nodes to replace in a step."""
        found = cls()
        owners: dict[int, GraphNode] = {}
        nodes = [node for top in tops for node in top.walk()]
        for node in nodes:
            if node.scope == 0 and node.sequence >= 0:
                known = owners.get(node.sequence)
                # An op without gradient has the sequence number of the next one.
                if known is None or known.id < node.id:
                    owners[node.sequence] = node
        within: set[int] = set()
        for node in nodes:
            make = None if node.id in within else _MADE.get(node.name)
            pair = make(node) if make else None
            if pair is not None:
                found.forward[node.id] = pair
                own = {n.id for n in node.walk()}
                found.backward |= {s: pair for s, n in owners.items() if n.id in own}
                within |= own
        return found

    def has(self, given: GraphNode) -> bool:
        """Whether a node is replaced on a GPU."""
        return given.id in self.forward or self._sequence(given) in self.backward

    def instead(self, given: GraphNode) -> list[Node]:
        """The replacement; empty where an earlier backward node stands for it."""
        if given.id in self.forward:
            op = self.forward[given.id].forward
            return [Node(op.name, "op", dispatched=op)]
        pair = self.backward[self._sequence(given)]
        key = str(id(pair))
        if key in self._done:
            return []
        self._done.add(key)
        made = Node(pair.backward.name, "op", dispatched=pair.backward)
        return [Node(pair.function, "op", children=[made])]

    @staticmethod
    def _sequence(given: GraphNode) -> int:
        """The sequence number of the autograd function that a node executes."""
        if not given.name.startswith(BACKWARD):
            return -1
        return next((n.sequence for n in given.children if n.scope == 1), -1)


def _dropout(given: GraphNode) -> Pair | None:
    """CUDA's op for dropout: one kernel forward, one backward."""
    (entered, *rest), (result, *_) = (
        list(arguments(given.inputs)),
        shapes(given.outputs),
    )
    if (
        rest[1:] != ["True"]
        or not isinstance(entered, Shape)
        or rest[0] in ("0", "0.0")
    ):
        return None
    mask = Shape(result.dims, "bool", 1)
    return Pair(
        _op("native_dropout", [entered, *rest], [result, mask]),
        _op("native_dropout_backward", [result, mask, ""], [result]),
        "NativeDropoutBackward0",
    )


def _attention(given: GraphNode) -> Pair | None:
    """FlashAttention of half precision without a mask, else the efficient kernel."""
    query, key, value, mask, dropout, is_causal, *more = arguments(given.inputs)
    heads = (query, key, value)
    if not all(isinstance(one, Shape) for one in heads):
        return None
    tensors = [one for one in heads if isinstance(one, Shape)]
    result = next(iter(shapes(given.outputs)))
    scale = more[0] if more else ""
    *outer, length, head = tensors[0].dims
    sums = Shape((*outer, length), "float", 4)
    is_half = tensors[0].dtype in _HALF
    if is_half and not mask and head <= FLASH_HEAD:
        forward: list[Argument] = [*tensors, dropout, is_causal, "False", scale]
        backward: list[Argument] = [result, *tensors, result, sums]
        seeds = []
        name, function = "flash", "ScaledDotProductFlashAttentionBackward0"
    else:
        sums = Shape((*outer, -(-length // _ROWS) * _ROWS), "float", 4)
        forward = [*tensors, mask, "True", dropout, is_causal, scale]
        seeds = [Shape((), "long int", 8)] * 2
        backward = [result, *tensors, mask, result, sums]
        name, function = "efficient", "ScaledDotProductEfficientAttentionBackward0"
    full = f"_scaled_dot_product_{name}_attention"
    return Pair(
        _op(full, forward, [result, sums, *seeds]),
        _op(f"{full}_backward", backward, tensors),
        function,
    )


_MADE: dict[str, Callable[[GraphNode], Pair | None]] = {
    "aten::dropout": _dropout,
    "aten::scaled_dot_product_attention": _attention,
}


def _op(name: str, given: Sequence[Argument], results: list[Shape]) -> Dispatched:
    return Dispatched(
        f"aten::{name}", list(given), results, is_on_gpu=True, is_view=False
    )


def list_loop(around: Node) -> bool:
    """Replace an optimizer's loop over parameters by `_foreach` ops, as on GPUs.

    Return False if the loop has ops with a `_foreach` variant, but they do not repeat.
    """
    iterations = _iterations(around.children)
    if iterations is None:
        return not any(_listed_name(node) for node in around.children)
    around.children = [
        made for column in zip(*iterations, strict=True) for made in _over_list(column)
    ]
    return True


def _iterations(nodes: Sequence[Node]) -> list[Sequence[Node]] | None:
    """The iterations of a loop: equal sequences of names that make up all nodes."""
    names = [node.name for node in nodes]
    if not any(_listed_name(node) for node in nodes):
        return None
    for length in range(1, len(names) // 2 + 1):
        count, rest = divmod(len(names), length)
        if not rest and names == names[:length] * count:
            return [nodes[i * length : (i + 1) * length] for i in range(count)]
    return None


def note_bags(op: Dispatched) -> None:
    """Give the ops of embedding bags the bag of each index, which only a GPU notes."""
    if op.name in _BAGS and not op.results[1].elements:
        op.results[1] = op.tensors[1]
    elif op.name == BAGS:
        rows, of_bags = op.arguments[1], op.arguments[_OF_BAGS]
        if isinstance(of_bags, Shape) and not of_bags.elements:
            op.arguments[_OF_BAGS] = rows


def _listed_name(node: Node) -> str:
    """The name of the op's `_foreach` variant, or ""."""
    if node.dispatched is None or not node.dispatched.tensors:
        return ""
    is_in_place = node.name.endswith("_")
    if node.name.removesuffix("_") not in _LISTS:
        return ""
    bare = node.name.removeprefix("aten::").removesuffix("_")
    return f"aten::_foreach_{bare}{'_' * is_in_place}"


def _over_list(column: Sequence[Node]) -> Sequence[Node]:
    """One `_foreach` op in place of the ops of all iterations, if there is one."""
    ops = [node.dispatched for node in column if node.dispatched is not None]
    name = _listed_name(column[0])
    if not name or len(ops) < len(column):
        return column
    given = [
        [one for one in values if isinstance(one, Shape)]
        if isinstance(values[0], Shape)
        else values[0]
        for values in zip(*(op.arguments for op in ops), strict=True)
    ]
    # In-place `_foreach` ops return nothing.
    results = [] if name.endswith("_") else [r for op in ops for r in op.results]
    op = Dispatched(
        name, given, results, ops[0].is_on_gpu, is_view=False, writes=ops[0].writes,
    )  # fmt: skip
    return [Node(name, "op", dispatched=op)]
