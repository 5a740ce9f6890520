"""A recording of `record.py`, and how errors of its predictions are reported."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEAST_ERROR = 0.0001


@dataclass(frozen=True)
class Recorded:
    """A recording: its files, and the times of unprofiled steps."""

    name: str
    kineto: Path
    facts: dict[str, Any]

    @property
    def files(self) -> list[Path]:
        """The trace, and the execution graph if there is one."""
        graph = self.kineto.with_name(f"{self.name}.et.json.gz")
        return [self.kineto, graph] if graph.exists() else [self.kineto]

    @property
    def workload(self) -> str:
        """The model; recordings of the same model do not share overheads."""
        return str(self.facts.get("workload", self.name))

    @property
    def step_ns(self) -> float:
        """The per-batch time, with steps back to back."""
        return float(self.facts["back_to_back_step_ns"])

    @property
    def spread(self) -> float:
        """The largest relative deviation of a round of steps."""
        rounds = self.facts.get("back_to_back_ns") or [self.step_ns]
        return max(abs(float(each) / self.step_ns - 1) for each in rounds)

    @property
    def graphed_step(self) -> int:
        """The slow step in which the execution graph was recorded; or -1."""
        text = str(self.facts.get("execution_graph_step") or "#-1")
        return int(text.rpartition("#")[2])

    @property
    def peak_bytes(self) -> int | None:
        """Peak GPU memory of the program's tensors."""
        if "peak_bytes" not in self.facts:
            return None
        others = ("bytes_before", "workspace_bytes")
        return int(self.facts["peak_bytes"]) - sum(
            int(self.facts.get(name, 0)) for name in others
        )


def recordings(folder: Path) -> list[Recorded]:
    """The recordings of a folder, by name."""
    found = []
    for measured in sorted(folder.rglob("*.measured.json")):
        name = measured.name.removesuffix(".measured.json")
        kineto = measured.with_name(f"{name}.kineto.json.gz")
        if kineto.exists():
            found.append(Recorded(name, kineto, json.loads(measured.read_text())))
    return found


def scores(errors: list[float]) -> tuple[float, float, float]:
    """Geometric mean and mean of the errors without signs; median with theirs.

    >>> scores([0.01, -0.04])
    (0.02, 0.025, -0.015)
    """
    sizes = [max(abs(error), LEAST_ERROR) for error in errors]
    geometric = exp(fmean(map(log, sizes)))
    return round(geometric, 6), round(fmean(map(abs, errors)), 6), median(errors)


def scored(errors: list[float]) -> Iterator[str]:
    """The same as text: only the last has a sign."""
    *sizes, middle = scores(errors)
    yield from (f"{100 * size:.2f}" for size in sizes)
    yield percent(middle)


def percent(share: float | None) -> str:
    """A share as text; empty if there is none."""
    return "" if share is None else f"{100 * share:+.2f}"
