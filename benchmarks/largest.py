"""Measure what a trace takes that is larger than the memory allowed.

    python benchmarks/largest.py --write docs/benchmarks.md

It is ingested once, with all layers and `--memory`, by a process of its own. The file
is made with `scale.py` and kept in a cache: have 30 GB free, and half an hour. Needs
Linux. Prints Markdown, which is a section of the page that `--write` names.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measure import (
    CONTROL,
    CORPUS,
    GB,
    MB,
    Clock,
    Outcome,
    Task,
    measure,
    scaled,
    tell,
    work_if_asked,
)
from pages import filled, machine, parser, publish_section, table, written_by

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = {20_000_000: "4GB"}
"""Events, and the memory limit."""
MEMORY_BYTES, TIMEOUT_S = 16 * GB, 7200

PAGE = """\
## A trace larger than memory

Cost of a trace that does not fit into the allowed memory. {written_by}

{about}
"""
ABOUT = (
    "The machine has {machine}. The trace (the control of HTA's trace_diff, repeated) "
    "is ingested once, with all layers, by a separate process; the machine was "
    "shared, so compare CPU seconds (user and system). Allowed is the value of "
    "`--memory`; the peak is that of the whole process."
)
HEAD = ["events", "JSON MB", "allowed", "CPU s", "wall s", "peak MB", "database MB"]


@dataclass(frozen=True)
class Large(Task):
    """A trace to ingest, and its memory limit."""

    memory: str


def load(task: Large) -> Iterator[Outcome]:
    """Ingest into a database on disk; the result is its size in bytes."""
    import polars  # noqa: F401, ICN001 (imports are not measured)

    import tracedb

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.duckdb"
        with clock, tracedb.open(path) as database:
            database.ingest([task.path], memory=task.memory)
        yield Outcome.of(clock, path.stat().st_size)


def row(events: int, task: Large, outcome: Outcome) -> list[str]:
    """The cost of a trace, or why it failed."""
    facts = [f"{events:,}", f"{task.path.stat().st_size / MB:,.0f}", task.memory]
    if outcome.failure:
        return [*facts, outcome.failure, "", "", ""]
    return [
        *facts,
        f"{outcome.cpu_s:,.0f}",
        f"{outcome.wall_s:,.0f}",
        f"{outcome.peak_bytes / MB:,.0f}",
        f"{outcome.result / MB:,.0f}",
    ]


def rows() -> Iterator[list[str]]:
    """Create the traces, and measure them one after another."""
    for least, memory in CASES.items():
        path, events = scaled(CORPUS / CONTROL, least)
        task = Large(path, MEMORY_BYTES, memory)
        [outcome] = measure(__file__, "load", task, TIMEOUT_S)
        yield row(events, task, outcome)
        tell(f"{events:,} events: {outcome.failure or f'{outcome.cpu_s:.0f} s of CPU'}")


def main() -> None:
    """Measure and write the section, or work as a child process."""
    work_if_asked(Large, {"load": load})
    given = parser(__doc__).parse_args()
    about = filled(ABOUT, machine=machine(None))
    page = PAGE.format(written_by=written_by(), about=about)
    publish_section("\n".join([page, *table(HEAD, rows(), left=0), ""]), given.write)


if __name__ == "__main__":
    main()
