"""Model the host time of a step on a CPU as a fixed time for each part of its tree.

The times are fitted to small programs (`programs.py`), whose steps were timed without a
profiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tracedb.from_code.program import Node

PARTS = ("step", "module", "call", "inner", "view", "backward", "gradient", "optimizer")
"""Parts with host time: a step, a module call, an op that Python calls, an op within an
op, a view, an autograd node, an accumulated gradient, and an op of an optimizer."""
_KEPT = "torch::autograd::AccumulateGrad"
_OPTIMIZER = "Optimizer."


def parts(root: Node) -> dict[str, int]:
    """The number of each part in a step."""
    found = dict.fromkeys(PARTS, 0)
    found["step"] = 1
    for part in _parts(root, within="step"):
        found[part] += 1
    return found


def part_of(node: Node, within: str) -> str | None:
    """Which part a node is; `within` describes the node around it."""
    if node.kind == "module":
        return "module"
    if node.kind != "op":
        return None
    if node.is_backward:
        return "gradient" if _KEPT in node.name else "backward"
    if node.dispatched is not None and node.dispatched.is_view:
        return "view"
    if within == "optimizer":
        return "optimizer"
    return "inner" if within == "op" else "call"


def inside(node: Node, within: str) -> str:
    """The `within` of a node's children."""
    if node.kind == "op":
        return "op"
    return "optimizer" if node.name.startswith(_OPTIMIZER) else within


def _parts(node: Node, within: str) -> Iterator[str]:
    for child in node.children:
        found = part_of(child, within)
        if found is not None:
            yield found
        yield from _parts(child, inside(child, within))


@dataclass(frozen=True)
class Timed:
    """A timed program: its counts of parts, its ops by the models, and its step."""

    counts: Mapping[str, int]
    ops_ns: float
    step_ns: float


@dataclass(frozen=True)
class HostModel:
    """The host time [ns] of each part, and the error on programs."""

    part_ns: Mapping[str, float]
    spread: float
    """[1] Log error that four of five programs left out of the fit stay within."""
    page_ns: float = 0.0
    """[ns] A new page of memory (`pages.py`), whatever op writes it first."""

    def of(self, part: str) -> float:
        """[ns] The time of one part."""
        return self.part_ns[part]

    def total_ns(self, counts: Mapping[str, int]) -> float:
        """[ns] The time of all parts of a step."""
        return sum(self.part_ns[part] * count for part, count in counts.items())


def fit(programs: Sequence[Timed]) -> HostModel:
    """Fit the times of parts; the spread is by leave-one-out over the programs."""
    errors = []
    for number, left_out in enumerate(programs):
        others = [*programs[:number], *programs[number + 1 :]]
        host_ns = HostModel(_fitted(others), 0.0).total_ns(left_out.counts)
        errors.append(abs(np.log((host_ns + left_out.ops_ns) / left_out.step_ns)))
    return HostModel(_fitted(programs), float(np.quantile(errors, 0.8)))


def _fitted(programs: Sequence[Timed]) -> dict[str, float]:
    """Non-negative least squares of relative errors."""
    from scipy.optimize import nnls

    rows = np.array([[p.counts[part] for part in PARTS] for p in programs], float)
    rests = np.array([max(p.step_ns - p.ops_ns, 0.0) for p in programs])
    weights = 1 / np.array([p.step_ns for p in programs])
    found, _ = nnls(rows * weights[:, None], rests * weights)
    return dict(zip(PARTS, map(float, found), strict=True))
