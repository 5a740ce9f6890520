"""Measure how lakes grow: filled by processes and by Spark, asked, their paths found.

    python benchmarks/fleet.py --into /tmp/fleet --write docs/fleet-growth.md

Traces of generated jobs, in which one rank is slow, are put into a lake by each runner,
and then again, which finds all of them known: that is the fixed start-up. Larger ones
follow, and questions of the lake. The critical path is that of a job of thousands of
ranks, made as a lake would keep it. Every command is a process of its own; CPU time is
that of all processes it starts, Spark's among them. Needs Linux, and for Spark PySpark
and Java.

Traces, lakes and what each part took lie in the folder `--into`; a part that is there
is not measured again, so parts may be measured one at a time (`--part`), in any number
of sittings. When all are there, it prints Markdown, or writes the page.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet_job import fleet_job, write
from measure import GB, MB, Clock, Outcome, Task, measure, tell, work_if_asked
from pages import filled, machine, parser, publish, table, written_by
from waiting_job import waiting_job

from tracedb.synthetic import Delays, Form, execute

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

SLOW, RANKS = 1, 64
"""The slow rank, and the number of ranks in each job."""
MEMORY_BYTES, TIMEOUT_S = 16 * GB, 3600
HOURS = 3600
TB = 10**12
CLUSTER = (100 * TB, 1000)
"""Bytes of traces, and cores that ingest them."""
_ADOPT_ORPHANS = 36
"""`PR_SET_CHILD_SUBREAPER`: orphaned processes of a command are waited for too."""
_EVERY_S = 0.2
_QUARTERS = 4
_TRIES = 3
"""Repetitions of the path, which takes seconds, with variation."""

PAGE = """\
# How lakes grow

The cost of filling a lake (`docs/lake.md`) and of querying it, and what it means for
more traces than one machine has. {written_by}

{about}

## Filling it

{filling}

{fixed}

## Memory of a worker

{memory}

{flat}

## Asking it

{asking}

{path}

## {size} TB of traces

{cluster}
"""
ABOUT = (
    "The machine has {machine}. CPU seconds are user and system, of all processes. "
    "All layers are ingested. The machine was shared: compare CPU seconds."
)
FIXED = (
    "The second line of a runner is the same command again, which finds all traces "
    "known: its start-up cost. The peak is that of all processes together, including "
    "Spark's Java. Small traces are from jobs of up to {ranks} ranks with {small:,} "
    "events each, {workers} at a time; most of their cost is the statements that each "
    "ingest runs, whatever it contains. Large ones have {large:,} events each: one "
    "trace, used for every rank."
)
FLAT = (
    "The largest process other than Java's, in each quarter of the time that the "
    "traces took, sampled every {every} s. It would grow if a worker kept anything "
    "from files that it has finished."
)
PATH = (
    "The path of a job with {ranks:,} ranks and {collectives:,} collectives each, in "
    "tensor-parallel, pipeline and data-parallel groups: from the rows of a lake to "
    "the ranks on the path, and the slowdowns of the job and its worst rank. The "
    "median of {tries} tries."
)
CLUSTER_TEXT = (
    "Extrapolated from the rates above: {bytes_per_event:.0f} bytes of JSON text per "
    "event make {events:.1e} events in {size} TB, which take {cpu_hours:,.0f} core "
    "hours to ingest at {us_per_event:.0f} us per event, or {hours:.1f} hours with "
    "{cores:,} cores, one file per core at a time. As files of {large:,} events that "
    "is {files:,.0f} tasks without a shuffle: each reads its file and writes its own "
    "folder. The lake takes {lake_share:.2f} of the bytes of the text: {lake_tb:.0f} "
    "TB. The summaries for fleet questions take {kept_bytes:,.0f} bytes per trace for "
    "the small ones, {kept_gb:.0f} GB for as many traces as these files: a question "
    "reads nothing else, and Spark would shuffle nothing else. A trace's folder has "
    "{files_each:.0f} files, so there would be {many_files:.1e} of them. Object "
    "stores charge per file, so larger traces, or fewer files for each, come first. "
    "The price of a core hour is not considered here."
)
HEAD = [
    *("traces", "runner", "what", "CPU s", "wall s", "peak MB"),
    *("events/s", "CPU us/event"),
]


@dataclass(frozen=True)
class Filling(Task):
    """A folder of traces and the lake for them, or the input of a path."""

    lake: Path
    workers: int


def command(task: Filling, *words: str) -> tuple[Outcome, list[int]]:
    """Run a command of tracedb and all its children to the end.

    Memory is that of all processes together. Also returned: the largest worker's memory
    in each quarter of the time, in bytes.
    """
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
    cpu_s = max(clock.cpu_s, watch.cpu_s)
    outcome = Outcome(cpu_s, clock.wall_s, watch.peak_bytes, part=task.path.name)
    return outcome, watch.quarters()


class Watch:
    """Samples CPU time and memory of all descendant processes.

    Spark's workers are not waited for, so the kernel drops their times. What a process
    uses after its last sample is missed.
    """

    def __init__(self) -> None:
        """Nothing is sampled yet."""
        self.peak_bytes = 0
        """The largest total of all processes."""
        self._ticks: dict[tuple[int, str], int] = {}
        self._largest: list[tuple[float, int]] = []
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
        """The sampled total of all processes."""
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def quarters(self) -> list[int]:
        """[B] The largest process other than Java, in each quarter of the time."""
        if not self._largest:
            return []
        began, ended = self._largest[0][0], self._largest[-1][0]
        found = [0] * _QUARTERS
        for at, size in self._largest:
            share = (at - began) / max(ended - began, _EVERY_S)
            quarter = min(int(_QUARTERS * share), _QUARTERS - 1)
            found[quarter] = max(found[quarter], size)
        return found

    def _look(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            there = {process.pid: process for process in _processes()}
            ours = [p for p in there.values() if _is_below(p.pid, there)]
            for one in ours:
                self._ticks[one.pid, one.began] = one.ticks
            together = sum(one.resident_bytes for one in ours)
            self.peak_bytes = max(self.peak_bytes, together)
            sizes = [one.resident_bytes for one in ours if one.program != "java"]
            self._largest.append((time.monotonic(), max(sizes, default=0)))


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    program: str
    parent: int
    began: str
    ticks: int
    """CPU time."""
    resident_bytes: int


def _processes() -> Iterator[Process]:
    """All processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # A forked child of Java has its memory and thread names at first; after
            # exec, it has its own memory.
            program = (folder / "exe").readlink().name
            tail = (folder / "stat").read_text().rpartition(")")[2]
        except OSError:  # it is over, or the kernel's own
            continue
        fields = tail.split()
        parent, user, system, began, pages = (fields[at] for at in (1, 11, 12, 19, 21))
        yield Process(
            int(folder.name),
            program,
            int(parent),
            began,
            int(user) + int(system),
            int(pages) * resource.getpagesize(),
        )


def _is_below(pid: int, there: Mapping[int, Process]) -> bool:
    """Whether a process is a descendant of this one."""
    while pid in there:
        pid = there[pid].parent
        if pid == os.getpid():
            return True
    return False


_WORKER = "worker"


def fill(task: Filling, *runner: str) -> Iterator[Outcome]:
    """Ingest the traces into the lake, twice."""
    for part in ("new", "known"):
        words = ("ingest", str(task.path), "--lake", str(task.lake), *runner)
        outcome, quarters = command(task, *words)
        yield outcome._replace(part=part)
        if part == "new":
            for size in quarters:
                yield Outcome(peak_bytes=size, part=_WORKER)


def _wait_for_all() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def local(task: Filling) -> Iterator[Outcome]:
    """Use processes of this machine."""
    return fill(task, "--workers", str(task.workers))


def spark(task: Filling) -> Iterator[Outcome]:
    """Use Spark on this machine."""
    return fill(task, "--runner", "spark", "--master", f"local[{task.workers}]")


QUESTIONS = ("info", "ask straggler", "ask kernel_regression", "critical-path")


def asking(task: Filling) -> Iterator[Outcome]:
    """Ask the lake's questions."""
    for question in QUESTIONS:
        name, *words = question.split()
        outcome, _ = command(task, name, str(task.lake), *words)
        yield outcome._replace(part=question)


def job_path(task: Filling) -> Iterator[Outcome]:
    """Find the path of a job with `path` ranks."""
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


def small(folder: Path, count: int) -> None:
    """Write this many small traces: jobs of up to `RANKS` ranks, one folder each."""
    for number, first in enumerate(range(0, count, RANKS)):
        job = fleet_job(min(RANKS, count - first), SLOW, seed=number)
        write(job, folder / f"job{number:02}")


def large(folder: Path, count: int, events: int) -> None:
    """Write this many large traces: repeated from one, as that of each rank."""
    folder.mkdir()
    job = execute(waiting_job(events, events // 100), Delays(jitter=0.1), 1)[0]
    text = job.json_text(Form(sync_events=True))
    for rank in range(count):
        of = f'{{"distributedInfo": {{"rank": {rank}, "world_size": {count}}},'
        (folder / f"rank{rank}.json").write_text(of + text.lstrip().removeprefix("{"))


def events_in(path: Path) -> int:
    """The number of events in a trace."""
    return len(json.loads(path.read_text())["traceEvents"])


def bytes_in(folder: Path, pattern: str) -> int:
    """[B] Total size of a folder's files."""
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def main() -> None:
    """Measure and write the page, or work as a child process."""
    work_if_asked(Filling, TOOLS)
    arguments = parser(__doc__)
    say = arguments.add_argument
    say("--into", type=Path, required=True, metavar="DIR", help="where all of it lies")
    say("--part", choices=PARTS, action="append", help="measure this alone")
    say("--traces", type=int, default=1000, help="how many small ones")
    say("--large", type=int, default=64, help="how many large ones")
    say("--events", type=int, default=100_000, help="of each large one")
    say("--workers", type=int, default=2, help="how many at a time")
    say("--ranks", type=int, default=4096, help="of the job whose path is found")
    say("--collectives", type=int, default=2000, help="of each of them")
    given = arguments.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    made = Made(given.into.absolute(), given)
    for part in given.part or PARTS:
        made.measure(part)
    missing = [part for part in PARTS if not made.results(part).exists()]
    if missing:
        tell(f"no page yet: {', '.join(missing)} missing")
    else:
        publish(_page(made, given), given.write)


RUNNERS = ("local", "spark")
PARTS = (
    *(f"{size}-{runner}" for size in ("small", "large") for runner in RUNNERS),
    "asking",
    "path",
)


class Made:
    """The contents of the work folder: traces, lakes, and measurements of parts."""

    def __init__(self, folder: Path, given: argparse.Namespace) -> None:
        """Remember the folder and the options."""
        self._folder, self._given = folder, given

    def results(self, part: str) -> Path:
        """The file with a part's measurements."""
        return self._folder / f"{part}.results.json"

    def traces(self, size: str) -> Path:
        """The small or large traces, created on first use."""
        folder, beside = self._folder / size, self._folder / f".{size}"
        if not folder.exists():
            shutil.rmtree(beside, ignore_errors=True)
            if size == "small":
                small(beside, self._given.traces)
            else:
                large(beside, self._given.large, self._given.events)
            beside.rename(folder)
        return folder

    def lake(self, part: str) -> Path:
        """The lake of a part."""
        return self._folder / f"{part}.lake"

    def measure(self, part: str) -> None:
        """Measure a part, unless it was measured already."""
        if self.results(part).exists():
            return
        size, _, runner = part.partition("-")
        tries = 1
        if part == "path":
            path = Path(f"{self._given.ranks}x{self._given.collectives}")
            task, tool = self._task(path, part), "job_path"
            tries = _TRIES
        elif part == "asking":
            task, tool = self._task(self.traces("small"), "small-local"), "asking"
        else:
            shutil.rmtree(self.lake(part), ignore_errors=True)
            task, tool = self._task(self.traces(size), part), runner
        outcomes: list[Outcome] = []
        for _ in range(tries):
            outcomes += measure(__file__, tool, task, TIMEOUT_S)
        for outcome in outcomes:
            tell(f"{part} {outcome}")
        if not any(outcome.failure for outcome in outcomes):
            self.results(part).write_text(json.dumps(outcomes))

    def _task(self, path: Path, lake: str) -> Filling:
        return Filling(path, MEMORY_BYTES, self.lake(lake), self._given.workers)

    def took(self, part: str) -> list[Outcome]:
        """Measurements of a part."""
        return [Outcome(*one) for one in json.loads(self.results(part).read_text())]


def _row(name: str, runner: str, events: int, outcome: Outcome) -> list[str]:
    """Measurements of a command."""
    facts = [f"{outcome.cpu_s:.1f}", f"{outcome.wall_s:.0f}"]
    if outcome.part == "known":
        return [name, runner, "known: start-up", *facts, "", "", ""]
    facts.append(f"{outcome.peak_bytes / MB:,.0f}")
    facts.append(f"{events / outcome.wall_s:,.0f}")
    facts.append(f"{outcome.cpu_s / events * 1e6:,.0f}")
    return [name, runner, outcome.part, *facts]


def _page(made: Made, given: argparse.Namespace) -> str:
    """The page."""
    events = {
        size: sum(map(events_in, made.traces(size).rglob("*.json")))
        for size in ("small", "large")
    }
    counts = {"small": given.traces, "large": given.large}
    filling, memory = [], []
    for part in PARTS[:4]:
        size, _, runner = part.partition("-")
        name = f"{counts[size]:,} {size}, {events[size]:,} events in all"
        took = made.took(part)
        workers = [outcome for outcome in took if outcome.part == _WORKER]
        others = [outcome for outcome in took if outcome.part != _WORKER]
        filling += [_row(name, runner, events[size], outcome) for outcome in others]
        sizes = [f"{outcome.peak_bytes / MB:,.0f}" for outcome in workers]
        memory.append([f"{counts[size]:,} {size}", runner, *sizes])
    facts = {
        "ranks": min(RANKS, given.traces),
        "small": events["small"] // given.traces,
        "large": events["large"] // given.large,
        "workers": given.workers,
    }
    quarters = [f"MB, quarter {number}" for number in range(1, _QUARTERS + 1)]
    return PAGE.format(
        written_by=written_by(),
        about=filled(ABOUT, machine=machine(None)),
        filling="\n".join(table(HEAD, filling, left=3)),
        fixed=filled(FIXED, **facts),
        memory="\n".join(table(["traces", "runner", *quarters], memory, left=2)),
        flat=filled(FLAT, every=_EVERY_S),
        asking="\n".join(
            table(["question", "CPU s", "wall s", "peak MB"], [*_asked(made, given)])
        ),
        path=filled(
            PATH, ranks=given.ranks, collectives=given.collectives, tries=_TRIES
        ),
        size=CLUSTER[0] // TB,
        cluster=_cluster(made, given, events["large"]),
    )


def _asked(made: Made, given: argparse.Namespace) -> Iterator[list[str]]:
    """Cost of the questions and of the path."""
    for outcome in made.took("asking"):
        yield _answer(
            f"`tracedb lake {outcome.part}`, {given.traces:,} traces", outcome
        )
    tries = sorted(made.took("path"), key=lambda outcome: outcome.wall_s)
    middle = tries[len(tries) // 2]
    yield _answer(middle.part, middle)


def _answer(name: str, outcome: Outcome) -> list[str]:
    """Cost of one question."""
    facts = [f"{outcome.cpu_s:.1f}", f"{outcome.wall_s:.1f}"]
    return [name, *facts, f"{outcome.peak_bytes / MB:,.0f}"]


def _cluster(made: Made, given: argparse.Namespace, events: int) -> str:
    """Extrapolated cost of a large volume of traces."""
    size, cores = CLUSTER
    us_per_event = made.took("large-local")[0].cpu_s / events * 1e6
    text_bytes = bytes_in(made.traces("large"), "*.json")
    all_events = size / (text_bytes / events)
    lake = made.lake("large-local")
    lake_share = bytes_in(lake, "*.parquet") / text_bytes
    kept_bytes = bytes_in(made.lake("small-local"), "fleet.parquet") / given.traces
    events_each = events / given.large
    files = all_events / events_each
    files_each = len([*lake.rglob("*.parquet")]) / given.large
    return filled(
        CLUSTER_TEXT,
        size=size // TB,
        cores=cores,
        bytes_per_event=text_bytes / events,
        events=all_events,
        cpu_hours=all_events * us_per_event / 1e6 / HOURS,
        hours=all_events * us_per_event / 1e6 / HOURS / cores,
        us_per_event=us_per_event,
        large=round(events_each),
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
