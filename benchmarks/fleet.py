"""Measure how lakes grow: filled by processes and by Spark, asked, their paths found.

    python benchmarks/fleet.py --write docs/fleet-growth.md

Traces of a generated job, in which one rank is slow, are put into a lake by each
runner, and then again, which finds all of them known: that is the fixed start-up. A
larger one follows, and questions of the lake. The critical path is that of a job of
thousands of ranks, made as a lake would keep it. Every command is a process of its own;
CPU time is that of all processes it starts, Spark's among them. Needs Linux, and for
Spark PySpark and Java. Prints Markdown, or writes the page.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_job import fleet_job, write
from measure import GB, MB, Clock, Outcome, Task, measure, tell, work_if_asked
from pages import filled, machine, parser, publish, table, written_by
from waiting_job import waiting_job

from tracedb.synthetic import Delays, Form, execute

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

SLOW = 1
"""The rank that is slow."""
MEMORY_BYTES, TIMEOUT_S = 16 * GB, 3600
HOURS = 3600
TB = 10**12
CLUSTER = (100 * TB, 1000)
"""Bytes of traces, and cores to ingest them."""
_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER`: what a command leaves behind is waited for as well."""
_EVERY_S = 0.1

PAGE = """\
# How lakes grow

What it takes to fill a lake (`docs/lake.md`), to ask it, and what that means for more
traces than one machine has. {written_by}

{about}

## Filling it

{filling}

{fixed}

## Asking it

{asking}

{path}

## {size} TB of traces

{cluster}
"""
ABOUT = (
    "The machine has {machine}; it was shared with other work, so compare CPU seconds "
    "(user and system, of all processes), not wall time. All layers are ingested."
)
FIXED = (
    "The second line of a runner is the same command again, which finds all traces "
    "known: its start-up. The peak is that of the largest process, Java's for Spark; "
    "that of a worker depends on its file, not on how many there are. Small traces "
    "are those of a job of {count} ranks with {small:,} events each, {workers} at a "
    "time; most of what one takes are the statements that each ingest runs, whatever "
    "is in it."
)
PATH = (
    "The path is that of a job of {ranks:,} ranks with {collectives:,} collectives "
    "each, of tensor-parallel, pipeline and data-parallel groups: from rows of a lake "
    "to the ranks that the path lies in, and the slowdowns of the job and its worst "
    "rank."
)
CLUSTER_TEXT = (
    "From the rates above, and nothing else: {bytes_per_event:.0f} bytes of JSON text "
    "an event make {events:.1e} events of {size} TB, which take {cpu_hours:,.0f} core "
    "hours to ingest at {us_per_event:.0f} us an event, or {hours:.1f} hours with "
    "{cores:,} cores, each file by one. As files of {large:,} events that is "
    "{files:,.0f} tasks, which no shuffle joins: each reads its file and writes its "
    "own folder. The lake takes {lake_share:.2f} of the bytes of the text: "
    "{lake_tb:.0f} TB. What is kept for questions of the fleet is {kept_bytes:,.0f} "
    "bytes a trace in the small ones, {kept_gb:.0f} GB for as many traces as these "
    "files: it is all that a question reads, and what Spark would shuffle. A folder "
    "of a trace has {files_each:.0f} files, so there would be {many_files:.1e} of "
    "them: object stores charge for each, so larger traces, or fewer files of each, "
    "come first. What a core hour costs is not measured here."
)
HEAD = ["traces", "runner", "what", "CPU s", "wall s", "peak MB", "CPU us/event"]


@dataclass(frozen=True)
class Filling(Task):
    """A folder of traces, and the lake to put them into; or what a path is found of."""

    lake: Path
    workers: int


def command(task: Filling, *words: str) -> Outcome:
    """Run one of our commands; nothing stays behind."""
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
    clock, watch = Clock(), Watch()
    with clock, watch:
        subprocess.run(  # noqa: S603 (our own program)
            [sys.executable, "-Im", "tracedb", "lake", *words],
            check=True,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        _wait_for_all()
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    cpu_s = max(clock.cpu_s, watch.cpu_s)
    return Outcome(cpu_s, clock.wall_s, largest, part=task.path.name)


class Watch:
    """Looks at the CPU time of all processes below this one, as long as they live.

    Nobody waits for Spark's workers, so the kernel forgets theirs. What a process takes
    after the last look at it is not seen.
    """

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._ticks: dict[tuple[int, str], int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        """Start."""
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self._is_over.set()
        self._thread.join()

    @property
    def cpu_s(self) -> float:
        """What was seen, of all of them."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            there = dict(_processes())
            for pid, (_, began, ticks) in there.items():
                if _is_below(pid, there):
                    self._ticks[pid, began] = ticks


def _processes() -> Iterator[tuple[int, tuple[int, str, int]]]:
    """Every process: its parent, when it began, and its CPU time in ticks."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parent, user, system, began = (fields[at] for at in (1, 11, 12, 19))
        yield int(folder.name), (int(parent), began, int(user) + int(system))


def _is_below(pid: int, there: Mapping[int, tuple[int, str, int]]) -> bool:
    """Whether a process was started by this one, or by one of its own."""
    while pid in there:
        pid = there[pid][0]
        if pid == os.getpid():
            return True
    return False


def fill(task: Filling, *runner: str) -> Iterator[Outcome]:
    """Put the traces into the lake, and once more."""
    for part in ("new", "known"):
        words = ("ingest", str(task.path), "--lake", str(task.lake), *runner)
        yield command(task, *words)._replace(part=part)


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


QUESTIONS = ("info", "ask straggler", "ask kernel_regression", "critical-path")


def asking(task: Filling) -> Iterator[Outcome]:
    """Ask the lake."""
    for question in QUESTIONS:
        name, *words = question.split()
        yield command(task, name, str(task.lake), *words)._replace(part=question)


def job_path(task: Filling) -> Iterator[Outcome]:
    """Find the path of a job of `path` many ranks."""
    import duckdb
    import numpy as np
    from many_ranks import ManyRanks

    from tracedb.lake import job

    ranks, collectives = map(int, task.path.name.split("x"))
    connection = duckdb.connect(config={"threads": task.workers})
    ManyRanks(ranks, collectives, slow=ranks // 3).fill(connection)
    clock = Clock()
    with clock:
        read = job.read(connection)
        spent = np.zeros(ranks, np.int64)
        for at in read.path():
            spent[at.trace] += at.end_ns - at.start_ns
        nobody = np.zeros(ranks, np.bool_)
        ideal_ns = read.span_ns(nobody)
        worst_ns = read.span_ns(np.arange(ranks) == spent.argmax())
    found = round(100 * worst_ns / ideal_ns)
    yield Outcome.of(clock, found, part=f"path of {task.path.name}")


TOOLS = {"local": local, "spark": spark, "asking": asking, "job_path": job_path}


def large(folder: Path, events: int) -> Path:
    """Write a trace of about so many events."""
    folder.mkdir()
    job = execute(waiting_job(events, events // 100), Delays(jitter=0.1), 1)[0]
    return job.write(folder / "large.json", Form(sync_events=True))


def events_in(folder: Path) -> int:
    """How many events the traces of a folder have."""
    return sum(
        len(json.loads(path.read_text())["traceEvents"])
        for path in folder.glob("*.json")
    )


def bytes_in(folder: Path, pattern: str) -> int:
    """[B] What the files of a folder take."""
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def row(name: str, runner: str, events: int, outcome: Outcome) -> list[str]:
    """What a command took; of one that failed, why."""
    if outcome.failure:
        return [name, runner, outcome.failure, "", "", "", ""]
    facts = [f"{outcome.cpu_s:.1f}", f"{outcome.wall_s:.0f}"]
    facts.append(f"{outcome.peak_bytes / MB:,.0f}")
    if outcome.part == "known":
        return [name, runner, "known: start-up", *facts[:2], "", ""]
    facts.append(f"{outcome.cpu_s / events * 1e6:,.0f}")
    return [name, runner, outcome.part, *facts]


def main() -> None:
    """Measure, and write the page; or be a process that is measured."""
    work_if_asked(Filling, TOOLS)
    arguments = parser(__doc__)
    say = arguments.add_argument
    say("--traces", type=int, default=12, help="how many small ones")
    say("--large", type=int, default=200_000, help="events of the large one")
    say("--workers", type=int, default=2, help="how many at a time")
    say("--ranks", type=int, default=4096, help="of the job whose path is found")
    say("--collectives", type=int, default=2000, help="of each of them")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracedb-") as scratch:
        publish(_page(Path(scratch), given), given.write)


def _page(scratch: Path, given: argparse.Namespace) -> str:
    """The page, of what is measured in a folder."""
    small, big = scratch / "job", scratch / "large"
    write(fleet_job(given.traces, SLOW), small)
    large(big, given.large)
    events = {folder: events_in(folder) for folder in (small, big)}
    rows: list[list[str]] = []
    per_event_us = 0.0
    for folder, runner in ((small, "local"), (small, "spark"), (big, "local")):
        task = _task(folder, scratch / f"{runner} {folder.name}", given.workers)
        name = f"{len([*folder.iterdir()])} of {events[folder]:,} events in all"
        for outcome in measure(__file__, runner, task, TIMEOUT_S):
            rows.append(row(name, runner, events[folder], outcome))
            tell(" ".join(rows[-1]))
            if folder == big and outcome.part == "new":
                per_event_us = outcome.cpu_s / events[folder] * 1e6
    made = scratch / "local job"
    asked = [*_asked(made, small, given)]
    fixed = filled(
        FIXED,
        count=given.traces,
        small=events[small] // given.traces,
        workers=given.workers,
    )
    return PAGE.format(
        written_by=written_by(),
        about=filled(ABOUT, machine=machine(None)),
        filling="\n".join(table(HEAD, rows, left=3)),
        fixed=fixed,
        asking="\n".join(
            table(["question", "CPU s", "wall s", "peak MB"], asked, left=1)
        ),
        path=filled(PATH, ranks=given.ranks, collectives=given.collectives),
        size=CLUSTER[0] // TB,
        cluster=_cluster(big, scratch / "local large", made, events[big], per_event_us),
    )


def _task(path: Path, lake: Path, workers: int) -> Filling:
    return Filling(path, MEMORY_BYTES, lake, workers)


def _asked(made: Path, small: Path, given: argparse.Namespace) -> Iterator[list[str]]:
    """What questions take."""
    tasks = {
        "asking": _task(small, made, given.workers),
        "job_path": _task(
            Path(f"{given.ranks}x{given.collectives}"), made, given.workers
        ),
    }
    for tool, task in tasks.items():
        for outcome in measure(__file__, tool, task, TIMEOUT_S):
            facts = [f"{outcome.cpu_s:.1f}", f"{outcome.wall_s:.1f}"]
            facts.append(f"{outcome.peak_bytes / MB:,.0f}")
            name = outcome.part
            if tool == "asking":
                name = f"`tracedb lake {name}`, {given.traces} traces"
            yield [outcome.failure or name, *facts]
            tell(" ".join([name, *facts]))


def _cluster(
    big: Path, lake: Path, made: Path, events: int, us_per_event: float
) -> str:
    """What many bytes of traces would take, by what was measured."""
    size, cores = CLUSTER
    text_bytes = bytes_in(big, "*.json")
    all_events = size / (text_bytes / events)
    lake_share = bytes_in(lake, "*.parquet") / text_bytes
    traces = len([*made.glob("run=*/rank=*/trace=*")])
    kept_bytes = bytes_in(made, "fleet.parquet") / traces
    files = all_events / events
    files_each = len([*lake.rglob("*.parquet")])
    return filled(
        CLUSTER_TEXT,
        size=size // TB,
        cores=cores,
        bytes_per_event=text_bytes / events,
        events=all_events,
        cpu_hours=all_events * us_per_event / 1e6 / HOURS,
        hours=all_events * us_per_event / 1e6 / HOURS / cores,
        us_per_event=us_per_event,
        large=events,
        files=files,
        lake_share=lake_share,
        lake_tb=lake_share * size / TB,
        kept_bytes=kept_bytes,
        kept_gb=kept_bytes * files / GB,
        files_each=files_each,
        many_files=files_each * files,
    )


if __name__ == "__main__":
    main()
