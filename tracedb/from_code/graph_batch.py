"""An execution graph at another batch size.

Which sizes follow the batch size is inferred from the ops (`tracedb.batch`). Tensors
whose sizes are not known to follow it stay as recorded and are named; where these have
much of the step's elements, the graph is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from tracedb.batch.calls import UPDATES, Call
from tracedb.batch.recorded import recorded_batch
from tracedb.batch.rules import inferred_dimensions
from tracedb.errors import EstimateError
from tracedb.from_code.collectives import NAME
from tracedb.from_code.graph_collectives import kind_of
from tracedb.from_code.graph_values import (
    arguments,
    is_off_host,
    is_tensor,
    recorded_tensors,
    shapes,
)
from tracedb.from_code.ops import Shape
from tracedb.words import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracedb.batch.calls import Dims
    from tracedb.batch.dimensions import Dimensions
    from tracedb.from_code.graph import Graph, GraphNode, Values
    from tracedb.from_code.ops import Argument

_MOST = 0.05
"""Largest accepted share of elements in tensors whose new sizes are unknown."""
_MOST_REASONS = 3
"""An error lists at most this many ops with unknown sizes."""
_LEAF, _OPTIMIZER = "AccumulateGrad", "Optimizer."
_COPY = "aten::copy_"


def at_batch(graph: Graph, batch: int, recorded: int | None = None) -> Graph:
    """The graph at another batch size; `recorded` is its own one, if it is given.

    The sizes are changed in its nodes, so the given graph is not to be used any more.
    Raises `EstimateError` if its own one is not clear, or if too many sizes may follow
    the batch size or not.
    """
    nodes = list(_updates(graph.threads))
    calls = [_call(node, is_update=is_update) for node, is_update in nodes]
    recorded = recorded or recorded_batch(calls)
    if recorded is None:
        raise EstimateError(
            f"{graph.path}: the recorded batch size is unknown, because the inputs do "
            "not agree on one; give it with --recorded-batch"
        )
    if batch == recorded:
        return replace(graph, batch=batch, recorded_batch=recorded)
    scaling = _Scaling(inferred_dimensions(calls, recorded), batch)
    unknown = scaling.unknown(graph, dict(nodes))
    for node, is_update in nodes:
        scaling.apply(node, is_update=is_update)
    lines = tuple(f"{words}; it stays as recorded" for words in unknown)
    return replace(graph, batch=batch, recorded_batch=recorded, unsure=lines)


def _updates(tops: Iterable[GraphNode]) -> Iterator[tuple[GraphNode, bool]]:
    """All nodes, and whether they update parameters or store gradients."""
    waiting = [(node, False) for node in tops]
    while waiting:
        node, is_within = waiting.pop()
        is_update = (
            is_within
            or _LEAF in node.name
            or node.name.startswith(_OPTIMIZER)
            or re.search(UPDATES, node.name) is not None
        )
        yield node, is_update
        waiting += [(child, is_update) for child in node.children]


def _call(node: GraphNode, *, is_update: bool) -> Call:
    """A node as a call of an op with shapes."""
    given = list(arguments(node.inputs))
    kind = ""
    if node.name == NAME:
        is_exchange = "alltoall" in kind_of(node).replace("_", "").lower()
        kind = "all_to_all" if is_exchange else kind_of(node)
    return Call(
        node.name,
        tuple(map(_dims, given)),
        tuple(value if isinstance(value, str) else "" for value in given),
        is_update=is_update,
        is_copied=_is_copied(node),
        collective=kind,
        results=tuple(shape.dims for shape in shapes(node.outputs)),
    )


def _dims(given: Argument) -> tuple[Dims, ...]:
    if isinstance(given, Shape):
        return (given.dims,) if given.dims else ()
    if isinstance(given, list):
        return tuple(shape.dims for shape in given)
    return ()


def _is_copied(node: GraphNode) -> bool:
    """Whether it copies from the host to a GPU."""
    ends = [is_off_host(one) for one in recorded_tensors(node.inputs)]
    return node.name == _COPY and ends[:2] == [True, False]


@dataclass
class _Scaling:
    """Changes the sizes of a graph's tensors in place."""

    dimensions: Dimensions
    batch: int

    def unknown(self, graph: Graph, updates: dict[GraphNode, bool]) -> list[str]:
        """The ops with unknown sizes, those of the largest tensors first.

        Raises `EstimateError` if they have many of the elements.
        """
        found: Counter[str] = Counter()
        known = 0
        for node in _computing(graph.threads):
            tensors = [shape.dims for shape in shapes([*node.inputs, *node.outputs])]
            problem = self._problem(tensors, is_update=updates[node])
            count = sum(map(prod, tensors))
            if problem:
                found[f"{node.name}: {problem}"] += count
            else:
                known += count
        lines = [words for words, _ in found.most_common()]
        part = found.total() / max(known + found.total(), 1)
        if part > _MOST:
            raise EstimateError(
                f"{graph.path}: for {share(part)} of the elements in its tensors it is "
                "unknown how they follow the batch size "
                f"({'; '.join(lines[:_MOST_REASONS])}); record the graph at batch size "
                f"{self.batch:,}"
            )
        return lines

    def apply(self, node: GraphNode, *, is_update: bool) -> None:
        """Change a node's arguments and results."""
        dims = [shape.dims for shape in shapes([*node.inputs, *node.outputs])]
        if is_update and self.dimensions.are_of_model(dims):
            return
        results = [list(shape.dims) for shape in shapes(node.outputs)]
        node.inputs = [self._value(value, results) for value in node.inputs]
        node.outputs = [self._value(value, results) for value in node.outputs]

    def _problem(self, tensors: Sequence[Dims], *, is_update: bool) -> str:
        """Why a size is unknown; empty if none is."""
        if is_update and self.dimensions.are_of_model(tensors):
            return ""
        problems = (self.dimensions.scaled(dims, self.batch)[1] for dims in tensors)
        return next(filter(None, problems), "")

    def _value(self, value: Values, results: Sequence[list[int]]) -> Values:
        """A value at the new size; sizes that are listed are those of a result."""
        if value.type.startswith("Tensor("):
            if not is_tensor(value.value):
                return value
            tensor, dims, strides = self._tensor(value.value, value.dims, value.strides)
            return replace(value, value=tensor, dims=dims, strides=strides)
        if "Tensor(" in value.type:
            tensors, dims = self._listed(value.value, value.dims)
            return replace(value, value=tensors, dims=dims)
        if value.value in results:
            return replace(value, value=list(self._sizes(tuple(value.value))))
        return value

    def _listed(self, values: Any, dims: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401 (as JSON has them)
        """Nested lists of tensors."""
        tensors, sizes = [], []
        for value, one in zip(values, dims, strict=False):
            if is_tensor(value):
                tensor, scaled, _ = self._tensor(value, one, ())
            elif isinstance(value, list):
                tensor, scaled = self._listed(value, one)
            else:
                tensor, scaled = value, one
            tensors.append(tensor)
            sizes.append(scaled)
        return tensors, sizes

    def _tensor(
        self,
        tensor: list[Any],
        dims: Sequence[Any],
        strides: Any,  # noqa: ANN401 (as JSON has them)
    ) -> tuple[list[Any], list[int], Any]:
        """A recorded tensor: its storage, first and number of elements, its sizes."""
        before = tuple(map(int, dims))
        after = self._sizes(before)
        name, storage, offset, count, *rest = tensor
        many, few = prod(after), max(prod(before), 1)
        changed = [name, storage, offset * many // few, count * many // few, *rest]
        return changed, list(after), _strides(before, after, strides)

    def _sizes(self, dims: Dims) -> Dims:
        found, problem = self.dimensions.scaled(dims, self.batch)
        return dims if problem else found


def _strides(before: Dims, after: Dims, strides: Any) -> Any:  # noqa: ANN401 (as JSON has them)
    """The strides of a tensor that lies as densely and in the same order as before."""
    if before == after or len(strides) != len(before):
        return strides
    found = list(map(int, strides))
    scale = Fraction(1)
    for at in sorted(range(len(found)), key=lambda at: (found[at], -at)):
        is_expanded = not found[at]
        found[at] = int(found[at] * scale)
        if not is_expanded and before[at]:
            scale *= Fraction(after[at], before[at])
    return found


def _computing(nodes: Iterable[GraphNode]) -> Iterator[GraphNode]:
    """The ops of a step without ops of theirs."""
    for top in nodes:
        for node in top.walk():
            if node.schema and not any(child.schema for child in node.children):
                yield node
