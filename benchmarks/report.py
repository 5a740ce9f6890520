"""Measure what the report of a trace of a million events takes, and its page a browser.

    python benchmarks/report.py --write docs/benchmarks.md

A trace is ingested once; then `tracedb report` does its work in a process of its own:
CPU seconds (user and system) and wall seconds from the open database to the file,
without imports, and the peak of its resident memory. The page is then opened in
Chromium, where one is installed. The traces are made with `scale.py` and kept in a
cache. Needs Linux. Prints Markdown, which is a section of the page that `--write`
names.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ingest import traces
from measure import (
    GB,
    MB,
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
    goal,
    goal_table,
    machine,
    middle_of,
    parser,
    publish_section,
    table,
)
from pages import written_by as command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest import Trace

ROOT = Path(__file__).resolve().parent.parent
MOST_S, MOST_MB = 20, 5
"""Limits for the report of a million events."""

PAGE = """\
## Report

Cost of `tracedb report`, and of its page in a browser. Written by

{command}

{about}
"""
ABOUT = (
    "The machine has {machine}. Each figure is {middle}, each in a separate process, "
    "from the open database to the file. The page is opened once in headless "
    "Chromium: the time until it is drawn, and until another step is."
)
HEAD = ["trace", "events", "CPU s", "wall s", "peak MB", "page MB", "open s", "step s"]


@dataclass(frozen=True)
class Page(Task):
    """A database, and the report to write."""

    report: Path


def ingest(task: Page) -> Iterator[Outcome]:
    """Ingest a trace into the database beside the report."""
    import tracedb

    clock = Clock()
    with clock, tracedb.open(_database(task)) as database:
        database.ingest([task.path])
    yield Outcome.of(clock)


def report(task: Page) -> Iterator[Outcome]:
    """Write the report like the command; the result is its size in bytes."""
    import polars  # noqa: F401, ICN001 (imports are not measured)

    import tracedb

    clock, path = Clock(), _database(task)
    with clock, tracedb.open(path, read_only=True) as database:
        database.report(task.report)
    yield Outcome.of(clock, task.report.stat().st_size)


def _database(task: Page) -> Path:
    return task.report.with_suffix(".duckdb")


def seen(path: Path) -> list[str]:
    """[s] Until a browser has drawn the page, and then another step; as text."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import CHROMIUM, browser

    if CHROMIUM is None:
        return ["no Chromium", ""]
    with browser() as page:
        began = time.perf_counter()
        page.open(path)
        opened = time.perf_counter()
        page.run("timeline.goStep(String(timeline.stepSpans().at(-1)[0]))")
        page.settle()
        times = (opened - began, time.perf_counter() - opened)
        if page.errors:
            raise RuntimeError(page.errors[0])
    return [f"{taken_s:.1f}" for taken_s in times]


def rows(
    trace: Trace, runs: int, memory_bytes: int, timeout_s: float
) -> tuple[list[str], list[list[str]]]:
    """Cost of the report of a trace, and the goals."""
    with tempfile.TemporaryDirectory() as folder:
        task = Page(trace.path, memory_bytes, Path(folder) / "report.html")
        measure(__file__, "ingest", task, timeout_s)
        taken = medians(
            [
                outcome
                for _ in range(runs)
                for outcome in measure(__file__, "report", task, timeout_s)
            ]
        )
        if taken.failure:
            raise RuntimeError(taken.failure)
        shown = seen(task.report)
    tell(f"{trace.title}: {taken.cpu_s:.1f} s of CPU, {taken.wall_s:.1f} s")
    row = [
        *(trace.title, f"{trace.events:,}", f"{taken.cpu_s:.1f}"),
        *(f"{taken.wall_s:.1f}", f"{taken.peak_bytes / MB:,.0f}"),
        *(f"{taken.result / MB:.1f}", *shown),
    ]
    goals = [("wall s", taken.wall_s, MOST_S), ("MB", taken.result / MB, MOST_MB)]
    return row, [[trace.title, *goal(*one)] for one in goals]


def main() -> None:
    """Measure, and write the section; or be a process that is measured."""
    work_if_asked(Page, {"ingest": ingest, "report": report})
    asked = parser(__doc__)
    asked.add_argument("--runs", type=int, default=1)
    asked.add_argument("--traces", nargs="*", default=["1 M"], help="words of titles")
    add_bounds(asked)
    given = asked.parse_args()
    limits = bounds(given)
    found = [
        rows(trace, given.runs, min(limits.memory_bytes, 12 * GB), limits.timeout_s)
        for trace in traces(quick=False, wanted=given.traces)
    ]
    about = filled(ABOUT, machine=machine(None), middle=middle_of(given.runs))
    page = PAGE.format(command=command().partition("\n\n")[2], about=about)
    lines = table(HEAD, [row for row, _ in found])
    goals = goal_table([line for _, lines in found for line in lines])
    publish_section("\n".join([page, *lines, "", goals]), given.write)


if __name__ == "__main__":
    main()
