"""What a step on a CPU takes beside the ops that compute: so much for each part.

The parts are counted in the tree of the step. What each takes is fitted to small
programs (`programs.py`), whose steps were timed without a profiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tracedb.from_code.program import Node

PARTS = ("step", "module", "call", "inner", "view", "backward", "gradient", "optimizer")
"""What host time is of: a step, a module that is called, an op that Python calls, an op
within an op, a view, a node of autograd's, a gradient that is kept, and an op that an
optimizer calls."""
_KEPT = "torch::autograd::AccumulateGrad"
_OPTIMIZER = "Optimizer."


def parts(root: Node) -> dict[str, int]:
    """How many of each part a step has."""
    found = dict.fromkeys(PARTS, 0)
    found["step"] = 1
    for part in _parts(root, within="step"):
        found[part] += 1
    return found


def part_of(node: Node, within: str) -> str | None:
    """Which part a node is; `within` is what the node around it is."""
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
    """What the nodes in a node are within."""
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
    """A program: what its parts are, what its ops take by the models, and its step."""

    counts: Mapping[str, int]
    ops_ns: float
    step_ns: float


@dataclass(frozen=True)
class HostModel:
    """[ns] What each part takes, and how well that tells steps of programs."""

    part_ns: Mapping[str, float]
    spread: float
    """[1] Log error of programs that the fit had not seen: of four of five."""

    def of(self, part: str) -> float:
        """[ns] What one of a part takes."""
        return self.part_ns[part]

    def total_ns(self, counts: Mapping[str, int]) -> float:
        """[ns] What all of a step's parts take."""
        return sum(self.part_ns[part] * count for part, count in counts.items())


def fit(programs: Sequence[Timed]) -> HostModel:
    """Fit what parts take; the spread is of programs left out of the fit in turn."""
    errors = []
    for number, left_out in enumerate(programs):
        others = [*programs[:number], *programs[number + 1 :]]
        host_ns = HostModel(_fitted(others), 0.0).total_ns(left_out.counts)
        errors.append(abs(np.log((host_ns + left_out.ops_ns) / left_out.step_ns)))
    return HostModel(_fitted(programs), float(np.quantile(errors, 0.8)))


def _fitted(programs: Sequence[Timed]) -> dict[str, float]:
    """Least squares of relative errors, of times that are not negative."""
    from scipy.optimize import nnls

    rows = np.array([[p.counts[part] for part in PARTS] for p in programs], float)
    rests = np.array([max(p.step_ns - p.ops_ns, 0.0) for p in programs])
    weights = 1 / np.array([p.step_ns for p in programs])
    found, _ = nnls(rows * weights[:, None], rests * weights)
    return dict(zip(PARTS, map(float, found), strict=True))
