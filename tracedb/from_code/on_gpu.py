"""Replace ops that only CPUs dispatch by those that a GPU dispatches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tracedb.from_code.attention_ops import Pair, attention_ops, gpu_op
from tracedb.from_code.attention_way import MATH, Question
from tracedb.from_code.capability import known_capability
from tracedb.from_code.graph_values import arguments, operand, shapes
from tracedb.from_code.launches import BAGS
from tracedb.from_code.ops import Dispatched, Shape
from tracedb.from_code.program import BACKWARD, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracedb.from_code.graph import GraphNode

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
_DROPOUT, _ATTENTION = "aten::dropout", "aten::scaled_dot_product_attention"
_REPLACED = (_DROPOUT, _ATTENTION)
_ZERO = ("0", "0.0")
_BY_PRODUCTS = "aten::_scaled_dot_product_attention_math"
_LISTS = frozenset(
    f"aten::{name}"
    for name in (
        "abs", "add", "addcdiv", "addcmul", "clamp_max", "clamp_min", "copy", "div",
        "exp", "lerp", "log", "maximum", "minimum", "mul", "neg", "pow", "reciprocal",
        "sign", "sqrt", "sub", "zero",
    )
)  # fmt: skip
"""Ops that have a `_foreach` variant."""
_MASKS = ("bool", "unsigned char")
_LOOPED = ("Adafactor", "Muon", "SparseAdam", "LBFGS")
"""Optimizers that loop over parameters on GPUs, too."""
_OTHERWISE = ("ASGD", "RAdam", "Rprop")
"""Optimizers that have other ops over lists than over each parameter."""


@dataclass
class Replaced:
    """Replacements of CPU ops, by node id or the backward op's sequence number."""

    forward: dict[int, Pair] = field(default_factory=dict)
    backward: dict[int, Pair] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tops: Iterable[GraphNode], gpu: str | None = None) -> Replaced:
        """Find the nodes to replace in a step on a GPU."""
        found = cls()
        owners: dict[int, GraphNode] = {}
        nodes = [node for top in tops for node in top.walk()]
        for node in nodes:
            if node.scope == 0 and node.sequence >= 0:
                known = owners.get(node.sequence)
                # An op without gradient has the sequence number of the next one.
                if known is None or known.id < node.id:
                    owners[node.sequence] = node
        capability = known_capability(gpu) if gpu else None
        within: set[int] = set()
        for node in nodes:
            pair = None
            own = {n.id for n in node.walk()} if node.name in _REPLACED else set()
            if node.id not in within and node.name == _DROPOUT:
                pair = _dropout(node)
            elif node.id not in within and node.name == _ATTENTION:
                is_trained = any(n.id in own for n in owners.values())
                pair = _attention(node, capability, is_trained=is_trained)
            if pair is not None:
                found.forward[node.id] = pair
                found.backward |= {s: pair for s, n in owners.items() if n.id in own}
                within |= own
        return found

    def has(self, given: GraphNode) -> bool:
        """Whether a node is replaced on a GPU."""
        return given.id in self.forward or self._sequence(given) in self.backward

    def instead(self, given: GraphNode) -> list[Node]:
        """The replacement; empty where an earlier backward node stands for it."""
        if given.id in self.forward:
            return [_node(op) for op in self.forward[given.id].forward]
        pair = self.backward[self._sequence(given)]
        key = str(id(pair))
        if key in self._done:
            return []
        self._done.add(key)
        return [
            Node(name, "op", children=[_node(op) for op in ops])
            for name, ops in pair.backward
        ]

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
    if rest[1:] != ["True"] or not isinstance(entered, Shape) or rest[0] in _ZERO:
        return None
    mask = Shape(result.dims, "bool", 1)
    return Pair(
        [gpu_op("native_dropout", [entered, *rest], [result, mask])],
        [
            (
                "NativeDropoutBackward0",
                [gpu_op("native_dropout_backward", [result, mask, ""], [result])],
            )
        ],
    )


def _attention(
    given: GraphNode, gpu: tuple[int, int] | None, *, is_trained: bool
) -> Pair | None:
    """The ops of the way that a GPU takes; None where a CPU's ops are its own."""
    heads = [operand(one) for one in given.inputs[:3]]
    query, key, value = heads
    if query is None or key is None or value is None:
        return None
    dropout, is_causal, *more = list(arguments(given.inputs))[4:]
    grouped = given.argument("enable_gqa")
    question = Question(
        query, key, value,
        mask=operand(given.inputs[3]),
        has_dropout=dropout not in _ZERO,
        is_causal=is_causal == "True",
        is_grouped=grouped is not None and grouped.value is True,
        is_trained=is_trained,
        gpu=gpu,
    )  # fmt: skip
    if question.way() == MATH and any(n.name == _BY_PRODUCTS for n in given.walk()):
        return None
    return attention_ops(question, [dropout, is_causal, *more[:1]])


def _node(op: Dispatched) -> Node:
    return Node(op.name, "op", dispatched=op)


def list_loop(around: Node) -> str:
    """Replace an optimizer's loop over parameters by `_foreach` ops, as on GPUs.

    Return what is wrong about the result, if anything.
    """
    kind = around.name.partition("#")[2].partition(".")[0]
    if kind in _LOOPED or not any(map(_listed_name, around.children)):
        return ""
    iterations = _iterations(around.children)
    if iterations is None:
        return "its loop over parameters is not turned into lists"
    columns = list(zip(*iterations, strict=True))
    around.children = [made for column in columns for made in _over_list(column)]
    if kind == "Adagrad":
        around.children = list(_with_products(around.children))
    return "over lists of parameters, it has other ops" if kind in _OTHERWISE else ""


def _iterations(nodes: Sequence[Node]) -> list[Sequence[Node]] | None:
    """The iterations of a loop: equal sequences of names that make up all nodes."""
    names = [node.name for node in nodes]
    for length in range(1, len(names) // 2 + 1):
        count, rest = divmod(len(names), length)
        if not rest and names == names[:length] * count:
            return [nodes[i * length : (i + 1) * length] for i in range(count)]
    return [nodes] if _is_of_one(nodes) else None


def _is_of_one(nodes: Sequence[Node]) -> bool:
    """Whether ops are those of a single parameter: all tensors have its dimensions."""
    ops = [node.dispatched for node in nodes if node.dispatched is not None]
    sizes = {shape.dims for op in ops for shape in op.tensors if shape.dims}
    return len(sizes) == 1


def _with_products(nodes: Sequence[Node]) -> Iterator[Node]:
    """Over lists, gradients are first multiplied by the rate, and then divided."""
    for node in nodes:
        op = node.dispatched
        if node.name == "aten::_foreach_addcdiv_" and op is not None:
            gradients = op.arguments[1]
            rated = replace(op, name="aten::_foreach_mul", arguments=[gradients, ""])
            yield Node(rated.name, "op", dispatched=rated)
        yield node


def note_bags(op: Dispatched) -> None:
    """Give the ops of embedding bags the bag of each index, which only a GPU notes."""
    if op.name in _BAGS and not op.results[1].elements:
        op.results[1] = op.tensors[1]
    elif op.name == BAGS:
        rows, of_bags = op.arguments[1], op.arguments[_OF_BAGS]
        if isinstance(of_bags, Shape) and not of_bags.elements:
            op.arguments[_OF_BAGS] = rows


def note_places(op: Dispatched | None, counts: Sequence[int]) -> None:
    """Give an op that takes a mask the places of what it selects instead."""
    if op is None or not counts:
        return
    waiting = iter(counts)
    for place, given in enumerate(op.arguments):
        if isinstance(given, list):
            op.arguments[place] = [p for one in given for p in _places(one, waiting)]


def _places(given: Shape, counts: Iterator[int]) -> list[Shape]:
    """A tensor of places for each dimension of a mask."""
    if given.dtype not in _MASKS:
        return [given]
    return [Shape((next(counts),), "long int", 8)] * len(given.dims)


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
    if ops[0].writes and not name.endswith("_"):
        # What it writes to is its first argument over lists.
        name += "_"
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
