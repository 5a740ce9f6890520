"""Select the nodes of one step from an execution graph, across threads."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tracedb.from_code.program import BACKWARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracedb.from_code.graph import Graph, GraphNode

_PROFILER = "ProfilerStep#"
_OPTIMIZER = "Optimizer.step#"
_MOST = 0.5
"""Repeated ranges are steps if they contain this share of all ops."""


@dataclass(frozen=True)
class GraphStep:
    """The top-level nodes of a step in order of their begins, and autograd's threads.

    `words` says which step it is; `left_out` counts the ops of threads other than the
    main thread and autograd's, by thread.
    """

    nodes: list[GraphNode]
    autograd: frozenset[int]
    words: str
    left_out: dict[int, int]


def last_step(graph: Graph) -> GraphStep:
    """The last of the steps with the most common number of ops.

    Steps are the profiler's; else repeated ranges; else the parts between the ends of
    optimizer steps; else the whole graph.
    """
    by_thread: defaultdict[int, list[GraphNode]] = defaultdict(list)
    for root in graph.threads:
        by_thread[root.thread].append(root)
    autograd = frozenset(
        thread
        for thread, roots in by_thread.items()
        if any(root.name.startswith(BACKWARD) or root.scope == 1 for root in roots)
    )
    main = _main(by_thread, autograd)
    tops = by_thread[main]
    others = {
        thread: _count(roots)
        for thread, roots in by_thread.items()
        if thread != main and thread not in autograd
    }
    for thread in sorted(autograd - {main}):
        for root in by_thread[thread]:
            _put(tops, root)
    tops.sort(key=lambda node: node.id)
    found = _step(tops)
    return replace(found, autograd=autograd - {main}, left_out=others)


def _main(by_thread: dict[int, list[GraphNode]], autograd: frozenset[int]) -> int:
    """The thread with the most ops, autograd's threads excluded."""
    counts = {thread: _count(roots) for thread, roots in by_thread.items()}
    forward = {t: n for t, n in counts.items() if t not in autograd or t == 1}
    candidates = forward or counts
    return max(candidates, key=lambda thread: (candidates[thread], -thread))


def _count(nodes: Iterable[GraphNode]) -> int:
    return sum(1 for top in nodes for node in top.walk() if not node.is_range)


def _put(tops: list[GraphNode], node: GraphNode) -> None:
    """Insert a node of another thread into the innermost range that surrounds it."""
    around = next((n for n in tops if n.is_range and n.surrounds(node)), None)
    if around is None:
        tops.append(node)
        return
    _put(around.children, node)
    around.children.sort(key=lambda child: child.id)


def _step(tops: list[GraphNode]) -> GraphStep:
    for steps, words in (_ranges(tops), _between(tops)):
        if steps:
            chosen = _commonest(steps)
            which = words[chosen]
            count = len(steps)
            described = f"{which}, of {count} steps" if count > 1 else which
            return GraphStep(list(steps[chosen]), frozenset(), described, {})
    return GraphStep(tops, frozenset(), "the whole graph", {})


def _commonest(steps: Sequence[Sequence[GraphNode]]) -> int:
    """The index of the last step of the most common size."""
    sizes = [_count(step) for step in steps]
    counts = Counter(sizes)
    most = max(counts.values())
    return max(i for i, size in enumerate(sizes) if counts[size] == most)


def _ranges(tops: list[GraphNode]) -> tuple[list[list[GraphNode]], list[str]]:
    """Steps that repeated ranges with most of the ops mark, and their names."""
    marks: defaultdict[str, list[GraphNode]] = defaultdict(list)
    for top in tops:
        for node in _outer_ranges(top):
            marks[re.sub(r"\d+", "#", node.name)].append(node)
    profiled = [n for nodes in marks.values() for n in nodes if _is_profiled(n)]
    if profiled:
        return [n.children for n in profiled], [n.name for n in profiled]
    total = _count(tops)
    for nodes in sorted(marks.values(), key=_count, reverse=True):
        if len(nodes) > 1 and _count(nodes) >= _MOST * total:
            return [[node] for node in nodes], [node.name for node in nodes]
    return [], []


def _is_profiled(node: GraphNode) -> bool:
    return node.name.startswith(_PROFILER)


def _outer_ranges(node: GraphNode) -> Iterable[GraphNode]:
    """The ranges from the top down, except those within ops."""
    if node.is_range:
        yield node
        for child in node.children:
            yield from _outer_ranges(child)


def _between(tops: list[GraphNode]) -> tuple[list[list[GraphNode]], list[str]]:
    """Steps that end with an optimizer step, if there are several; and their names."""
    steps: list[list[GraphNode]] = [[]]
    for node in tops:
        steps[-1].append(node)
        if any(n.name.startswith(_OPTIMIZER) for n in _outer_ranges(node)):
            steps.append([])
    complete = steps[:-1]
    if len(complete) < 2:  # noqa: PLR2004 (with one there is nothing to cut)
        return [], []
    last = [step[-1] for step in complete]
    return complete, [f"the part that ends with node {n.id} ({n.name})" for n in last]
