"""Errors of predicted kernel times of recordings, by family."""

from __future__ import annotations

from collections import defaultdict
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from pages import goal, table
from recorded import LEAST_ERROR, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import duckdb

GOAL = 5.0
"""[%] For each family, from shapes alone."""
QUERY = """
SELECT
    family,
    sum(problem_count),
    sum(measured_ns),
    exp(sum(problem_count * ln(uncalibrated_gmae_share)) / sum(problem_count)),
    exp(sum(problem_count * ln(gmae_share)) / sum(problem_count)),
    sum(measured_ns * uncalibrated_bias_share) / sum(measured_ns)
FROM question.kernel_error
WHERE trace_id = $trace
GROUP BY family
"""
ABOUT = """
## Kernels

Kernels of an op are one problem, a copy is one of its own; geometric means of their
errors over all recordings, from shapes alone (the paper's way), and taught by the other
steps of the recording. `bias` is the predicted time of all over the recorded one, less
1, from shapes alone. Collectives and what no family counts are left out.
"""


class Family(NamedTuple):
    """A family of GPU work in one recording, or in all."""

    name: str
    problems: int
    measured_ns: int
    of_shapes: float
    taught: float
    bias: float


def of_trace(connection: duckdb.DuckDBPyConnection, trace: int) -> list[Family]:
    """The families of one recording."""
    rows = connection.execute(QUERY, {"trace": trace}).fetchall()
    return [Family(*row) for row in rows]


def pooled(families: Iterable[Family]) -> list[Family]:
    """The families of all recordings, most time first."""
    found: defaultdict[str, list[Family]] = defaultdict(list)
    for family in families:
        found[family.name].append(family)
    together = [_together(name, parts) for name, parts in found.items()]
    return sorted(together, key=lambda family: -family.measured_ns)


def _together(name: str, parts: list[Family]) -> Family:
    """Problems of all recordings, each with the same weight."""
    problems = sum(part.problems for part in parts)
    measured = sum(part.measured_ns for part in parts)

    def middle(errors: Iterable[float]) -> float:
        pairs = zip(parts, errors, strict=True)
        logs = (p.problems * log(max(error, LEAST_ERROR)) for p, error in pairs)
        return exp(sum(logs) / problems)

    return Family(
        name,
        problems,
        measured,
        middle(part.of_shapes for part in parts),
        middle(part.taught for part in parts),
        sum(part.measured_ns * part.bias for part in parts) / measured,
    )


def goals(families: list[Family]) -> Iterator[list[str]]:
    """A row for each family."""
    for family in families:
        yield goal(f"kernels: {family.name}, GMAE", 100 * family.of_shapes, GOAL)


def section(families: list[Family]) -> Iterator[str]:
    """The table; empty without recorded kernels."""
    if not families:
        return
    total = sum(family.measured_ns for family in families)
    head = ["family", "problems", "of the time, %", "GMAE, %", "taught, %", "bias, %"]
    yield ABOUT
    yield from table(
        head,
        (
            [
                family.name,
                f"{family.problems:,}",
                f"{100 * family.measured_ns / total:.1f}",
                f"{100 * family.of_shapes:.2f}",
                f"{100 * family.taught:.2f}",
                percent(family.bias),
            ]
            for family in families
        ),
    )
