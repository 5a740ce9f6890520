"""Measure how long many scenarios of one trace take, all asked at once.

    python benchmarks/many_scenarios.py TRACE --write docs/benchmarks.md

Scenarios scale kernels, T2, T4 or all host time, each by another factor.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from measure import (
    Clock,
    Outcome,
    Task,
    add_bounds,
    bounds,
    measure,
    medians,
    tell,
    work_if_asked,
)
from pages import (
    filled,
    machine,
    middle_of,
    parser,
    publish_section,
    table,
    written_by,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

COUNTS = (1, 100, 1_000)
CHOSEN: tuple[tuple[Literal["gpu", "host"], str | None], ...] = (
    ("gpu", "kernel"),
    ("host", "T2"),
    ("host", "T4"),
    ("host", None),
)
PAGE = """\
## Many scenarios

Cost of `Database.scenarios`, all scenarios at once. {written_by}

{about}

"""
ABOUT = (
    "The machine has {machine}. Each figure is {middle}, each in a separate process, "
    "from the open database to the times of all steps; the machine was shared. "
    "Scenarios scale kernels, T2, T4 or all host time."
)


@dataclass(frozen=True)
class Many(Task):
    """A database, and the number of scenarios."""

    count: int


def evaluate(task: Many) -> Iterator[Outcome]:
    """Evaluate all scenarios of a database together."""
    import tracedb

    edits = [
        tracedb.Edit(
            scenario=f"{number}",
            target=CHOSEN[number % 4][0],
            type=CHOSEN[number % 4][1],
            factor=1 - number / (2 * task.count),
        )
        for number in range(task.count)
    ]
    with tracedb.open(task.path, read_only=True) as opened:
        clock = Clock()
        with clock:
            found = opened.scenarios(edits)
    yield Outcome.of(clock, found.height)


def section(given: argparse.Namespace) -> str:
    """Measure each number of scenarios, and make a table."""
    import tracedb

    limits = bounds(given)
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "run.duckdb"
        with tracedb.open(database) as opened:
            opened.ingest([given.trace])
        for count in COUNTS:
            task = Many(database, limits.memory_bytes, count)
            runs = (
                measure(__file__, "evaluate", task, limits.timeout_s)
                for _ in range(given.runs)
            )
            found = medians([outcome for run in runs for outcome in run])
            tell(f"{count} scenarios: {found.cpu_s:.2f} s of CPU")
            cells.append([f"{count:,}", f"{found.cpu_s:.2f}", f"{found.wall_s:.2f}"])
    about = filled(ABOUT, machine=machine(None), middle=middle_of(given.runs))
    page = PAGE.format(written_by=written_by(), about=about)
    rows = table(["scenarios", "CPU s", "wall s"], cells, left=0)
    return "\n".join([page.rstrip(), "", *rows, ""])


def main() -> None:
    """Measure and write the section, or work as a child process."""
    work_if_asked(Many, {"evaluate": evaluate})
    asked = parser(__doc__)
    say = asked.add_argument
    say("trace", type=Path, help="the trace that is asked")
    say("--runs", type=int, default=3, help="how often each count is asked")
    add_bounds(asked, memory=8)
    given = asked.parse_args()
    publish_section(section(given), given.write)


if __name__ == "__main__":
    main()
