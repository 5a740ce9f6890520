"""Measure how long many scenarios of one trace take, all asked at once.

    python benchmarks/many_scenarios.py TRACE --events 10000 --write docs/benchmarks.md

Scenarios scale kernels, T2, T4 or all host time, each by another factor; or each
removes another kernel, which arrays cannot evaluate. With `--events`, the trace is also
measured repeated until it has so many.
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
from scale import scale

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import tracedb

COUNTS = {"durations": (1, 100, 1_000), "removal": (1, 100)}
"""How many scenarios, by what they edit."""
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
    "Scenarios scale kernels, T2, T4 or all host time (durations), or each removes "
    "another kernel (removal). A node is an op, a call or GPU work."
)


@dataclass(frozen=True)
class Many(Task):
    """A database, what scenarios edit, and their number."""

    edited: str
    count: int


def _edits(task: Many) -> Iterator[tracedb.Edit]:
    import tracedb

    for number in range(task.count):
        target, type_ = CHOSEN[number % 4]
        yield (
            tracedb.Edit(
                scenario=f"{number}",
                target=target,
                type=type_,
                factor=1 - number / (2 * task.count),
            )
            if task.edited == "durations"
            else tracedb.Edit(
                scenario=f"{number}",
                target="gpu",
                type="kernel",
                instance=number + 1,
                action="remove",
            )
        )


def evaluate(task: Many) -> Iterator[Outcome]:
    """Evaluate all scenarios of a database together."""
    import tracedb

    edits = [*_edits(task)]
    with tracedb.open(task.path, read_only=True) as opened:
        clock = Clock()
        with clock:
            found = opened.scenarios(edits)
    yield Outcome.of(clock, found.height)


def section(given: argparse.Namespace) -> str:
    """Measure each number of scenarios on each trace, and make a table."""
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        traces = [given.trace]
        if given.events:
            traces.append(Path(folder) / "repeated.json")
            scale(given.trace, traces[-1], given.events)
        for number, trace in enumerate(traces):
            cells += _measured(given, trace, Path(folder) / f"{number}.duckdb")
    about = filled(ABOUT, machine=machine(None), middle=middle_of(given.runs))
    page = PAGE.format(written_by=written_by(), about=about)
    rows = table(["nodes", "scenarios", "edits", "CPU s", "÷ one"], cells, left=0)
    return "\n".join([page.rstrip(), "", *rows, ""])


def _measured(
    given: argparse.Namespace, trace: Path, database: Path
) -> list[list[str]]:
    """Measure each number of scenarios of a trace: the rows of the table."""
    import tracedb

    limits = bounds(given)
    with tracedb.open(database) as opened:
        opened.ingest([trace])
        nodes = opened.sql("SELECT count(*) FROM graph.node").item()
    cells = []
    for edited, counts in COUNTS.items():
        one_s = 0.0
        for count in counts:
            task = Many(database, limits.memory_bytes, edited, count)
            runs = (
                measure(__file__, "evaluate", task, limits.timeout_s)
                for _ in range(given.runs)
            )
            cpu_s = medians([outcome for run in runs for outcome in run]).cpu_s
            one_s = one_s or cpu_s
            tell(f"{nodes:,} nodes, {count} scenarios, {edited}: {cpu_s:.2f} s of CPU")
            times = [f"{cpu_s:.2f}", f"{cpu_s / one_s:.1f}"]
            cells.append([f"{nodes:,}", f"{count:,}", edited, *times])
    return cells


def main() -> None:
    """Measure and write the section, or work as a child process."""
    work_if_asked(Many, {"evaluate": evaluate})
    asked = parser(__doc__)
    say = asked.add_argument
    say("trace", type=Path, help="the trace that is asked")
    say("--events", type=int, help="also measure it repeated up to so many events")
    say("--runs", type=int, default=3, help="how often each count is asked")
    add_bounds(asked, memory=8)
    given = asked.parse_args()
    publish_section(section(given), given.write)


if __name__ == "__main__":
    main()
