"""Measure how fast lakes are filled: by processes of this machine, and by Spark.

    python benchmarks/fleet.py --write docs/benchmarks.md

Small generated traces are put into a lake by each runner, and then again, which finds
all of them known: that is the fixed start-up. Every command is a process of its own;
CPU time is that of all processes it starts, Spark's among them. Needs Linux, and for
Spark PySpark and Java. Prints Markdown, a section of the page that `--write` names.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measure import GB, MB, Clock, Outcome, Task, measure, tell, work_if_asked
from pages import filled, machine, parser, publish_section, table, written_by
from waiting_job import waiting_job

from tracedb.synthetic import Delays, Form, execute

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS, WAITS = 4_000, 120
"""Of each trace, about."""
MEMORY_BYTES, TIMEOUT_S = 16 * GB, 3600
_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER`: what a command leaves behind is waited for as well."""

PAGE = """\
## Lakes

What it takes to put many small traces into a lake (`docs/lake.md`). {written_by}

{about}
"""
ABOUT = (
    "The machine has {machine}. {count} generated traces of {events:,} events in all "
    "are ingested with all layers, {workers} at a time; the second line of each runner "
    "is the same command again, which finds all of them known: its start-up. CPU "
    "seconds (user and system) are those of all processes; the machine was shared, so "
    "compare these. The peak is that of the largest process, Java's for Spark."
)
HEAD = ["runner", "what", "CPU s", "wall s", "peak MB", "events/s", "CPU us/event"]


@dataclass(frozen=True)
class Filling(Task):
    """A folder of traces, and the lake to put them into."""

    lake: Path
    workers: int


def fill(task: Filling, *runner: str) -> Iterator[Outcome]:
    """Put the traces into the lake, and once more; nothing stays behind."""
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
    command = [sys.executable, "-Im", "tracedb", "lake", "ingest", str(task.path)]
    command += ["--lake", str(task.lake), *runner]
    for part in ("new", "known"):
        clock = Clock()
        with clock:
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)  # noqa: S603 (our own program)
            _wait_for_all()
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        yield Outcome(clock.cpu_s, clock.wall_s, largest, part=part)


def _wait_for_all() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def local(task: Filling) -> Iterator[Outcome]:
    """By processes of this machine."""
    return fill(task, "--workers", str(task.workers))


def spark(task: Filling) -> Iterator[Outcome]:
    """By Spark, on this machine."""
    return fill(task, "--runner", "spark", "--master", f"local[{task.workers}]")


TOOLS = {"local": local, "spark": spark}


def traces(folder: Path, count: int) -> int:
    """Write so many traces; return their events."""
    events = 0
    for seed in range(count):
        job = execute(waiting_job(EVENTS, WAITS), Delays(jitter=0.1), seed)[0]
        path = job.write(folder / f"rank{seed}.json", Form(sync_events=True))
        events += len(json.loads(path.read_text())["traceEvents"])
    return events


def row(runner: str, events: int, outcome: Outcome) -> list[str]:
    """What a command took; of one that failed, why."""
    if outcome.failure:
        return [runner, outcome.failure, "", "", "", "", ""]
    facts = [f"{outcome.cpu_s:.0f}", f"{outcome.wall_s:.0f}"]
    if outcome.part == "known":
        return [runner, "known: start-up", *facts, "", "", ""]
    facts.append(f"{outcome.peak_bytes / MB:,.0f}")
    rate = [f"{events / outcome.wall_s:,.0f}", f"{outcome.cpu_s / events * 1e6:,.0f}"]
    return [runner, "new", *facts, *rate]


def main() -> None:
    """Measure, and write the section; or be a process that fills a lake."""
    work_if_asked(Filling, TOOLS)
    arguments = parser(__doc__)
    arguments.add_argument("--traces", type=int, default=12, help="how many")
    arguments.add_argument("--workers", type=int, default=2, help="how many at a time")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracedb-") as scratch:
        folder = Path(scratch) / "job"
        folder.mkdir()
        events = traces(folder, given.traces)
        rows = []
        for runner in TOOLS:
            task = Filling(folder, MEMORY_BYTES, Path(scratch) / runner, given.workers)
            for outcome in measure(__file__, runner, task, TIMEOUT_S):
                rows.append(row(runner, events, outcome))
                tell(" ".join(rows[-1]))
    about = filled(
        ABOUT,
        machine=machine(None),
        count=given.traces,
        events=events,
        workers=given.workers,
    )
    page = PAGE.format(written_by=written_by(), about=about)
    publish_section("\n".join([page, *table(HEAD, rows, left=2), ""]), given.write)


if __name__ == "__main__":
    main()
