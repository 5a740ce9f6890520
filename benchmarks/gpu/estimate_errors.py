"""Errors of estimates made before the recordings: steps, GPU work, memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from pages import goal, table
from recorded import percent, scores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from recorded import Recorded

MEMORY_GOAL = 2.0
"""[%] Median error of the peak."""
WAYS = ("code", "graph")
ABOUT = """
## Estimates

Said before anything was recorded, of this GPU by name: from the code alone on fake
tensors (`code`), and from an execution graph of a step on a CPU (`graph`). Steps are
held against steps that nobody profiled; the peak of the memory against
`torch.cuda.max_memory_allocated`, less what was there before and what cuBLAS keeps as
its workspaces. An empty cell is an estimate that was refused, which is told below the
table, or a measurement that is missing.
"""


@dataclass(frozen=True)
class Estimated:
    """An estimate and the measurements of a recording."""

    recorded: Recorded
    said: dict[str, Any]

    def step_error(self, way: str) -> float | None:
        """Error of the step time."""
        step_ns = self.said.get(way, {}).get("step_ns")
        return None if step_ns is None else step_ns / self.recorded.step_ns - 1

    def memory_error(self, way: str) -> float | None:
        """Error of peak memory."""
        said, peak = self.said.get(way, {}).get("peak_bytes"), self.recorded.peak_bytes
        return None if said is None or peak is None else said / peak - 1


def of_folder(
    folder: Path | None, recorded: Mapping[str, Recorded]
) -> Iterator[Estimated]:
    """The estimates of what was recorded."""
    for name, one in recorded.items() if folder is not None else ():
        file = folder / f"{name}.estimated.json"  # type: ignore[operator] # it is not None here
        if file.exists():
            yield Estimated(one, json.loads(file.read_text()))


def goals(estimates: list[Estimated]) -> Iterator[list[str]]:
    """The goal for memory; step times have none."""
    for way in WAYS:
        if errors := _sizes(e.memory_error(way) for e in estimates):
            name = f"estimate: memory from {way}, median"
            yield goal(name, 100 * median(errors), MEMORY_GOAL)


def _sizes(errors: Iterator[float | None]) -> list[float]:
    return [abs(error) for error in errors if error is not None]


def section(estimates: list[Estimated]) -> Iterator[str]:
    """The table; empty without estimates."""
    if not estimates:
        return
    yield ABOUT
    for way in WAYS:
        if errors := _sizes(e.step_error(way) for e in estimates):
            middle = 100 * scores(errors)[0]
            yield f"Steps from {way}: GMAE {middle:.1f} % of {len(errors)} recordings."
    yield ""
    head = ["model", "unprofiled, ms", "code, %", "graph, %", "peak, MB"]
    yield from table([*head, "code, %", "graph, %"], map(_row, estimates))
    yield ""
    for one in estimates:
        for way in WAYS:
            if refused := one.said.get(way, {}).get("refused"):
                yield f"- {one.recorded.name}, {way}: {refused}"


def _row(one: Estimated) -> list[str]:
    peak = one.recorded.peak_bytes
    return [
        one.recorded.name,
        f"{one.recorded.step_ns / 1e6:.3f}",
        *(percent(one.step_error(way)) for way in WAYS),
        "" if peak is None else f"{peak / 1e6:,.1f}",
        *(percent(one.memory_error(way)) for way in WAYS),
    ]
