"""A small simulator of jobs with collectives on the CPU.

Main threads compute, call collectives and wait for them; process-group threads run
them. It writes what PyTorch's profiler records of Gloo.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tracedb

RANKS, STEPS = 3, 6
WAKE_NS, RETURN_NS, CALL_NS = 60_000, 45_000, 30_000
"""Call to begin of a collective, wake-up of a thread, and the call itself."""
WAIT = "<built-in method wait of Work object at 0x7f>"
Document = dict[str, Any]


@dataclass(frozen=True)
class Rank:
    """A rank's compute time in each step, and how long its collectives move data."""

    compute_ns: tuple[tuple[int, ...], ...]
    """Per step: the ops before the first call, between the calls, and after."""
    sleep_ns: int
    """Python time at the begin of each step."""
    moving_ns: tuple[int, int] = (400_000, 700_000)
    waits: bool = True
    """Whether it also waits until the others have begun."""
    inside: bool = False
    """Whether its main thread waits in an op, as in FSDP's backward pass."""


@dataclass
class Recorded:
    """The events of a rank, and the ends of its steps."""

    events: list[Document] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)

    def add(self, name: str, tid: int, start: int, end: int, **args: object) -> None:
        """Record an event of a thread."""
        kind = "user_annotation" if ":" in name or "#" in name else "cpu_op"
        kind = "cpu_op" if name.startswith(("aten", "c10d")) else kind
        kind = "python_function" if name.startswith("<built-in") else kind
        fields = {"ph": "X", "cat": kind, "name": name, "pid": 7, "tid": tid}
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        self.events.append(fields | times | {"args": args})


def execute(job: list[Rank]) -> list[Recorded]:
    """Run all ranks: each collective ends only after all have begun it."""
    recorded = [Recorded() for _ in job]
    runs = [_run(rank, of) for rank, of in zip(job, recorded, strict=True)]
    begins = [next(run) for run in runs]
    while begins:
        last = max(begins)
        following = []
        for run in runs:
            try:
                following.append(run.send(last))
            except StopIteration:
                continue
        begins = following
    return recorded


def _run(rank: Rank, recorded: Recorded) -> Generator[int, int, None]:
    """Run a rank: it yields when a collective begins, and resumes when all have."""
    now = 5_000
    recorded.add("aten::empty", 1, now - 5_000, now)
    for step, computing in enumerate(rank.compute_ns):
        begin = now
        now += rank.sleep_ns + 10_000
        ends = []
        for number, compute in enumerate(computing):
            recorded.add("aten::mm", 1, now, now + compute)
            now += compute + 4_000
            if number == len(rank.moving_ns):
                break
            size = {"Input Dims": [[[1024 + number]]], "Input type": ["TensorList"]}
            recorded.add("c10d::allreduce_", 1, now, now + CALL_NS, **size)
            now += CALL_NS
            started = now + WAKE_NS
            arrived = yield started
            if not rank.waits:
                arrived = started
            ended = max(started, arrived) + rank.moving_ns[number]
            size = {"Input Dims": [[1024 + number]], "Input type": ["float"]}
            recorded.add("gloo:all_reduce", 2 + number, started, ended, **size)
            ends.append(ended)
        around = now
        for ended in ends:
            waiting, now = now, max(now, ended) + RETURN_NS
            if rank.inside:
                recorded.add(WAIT, 1, waiting, now)
            recorded.add("aten::copy_", 1, now, now + 20_000)
            now += 20_000 + 3_000
        if rank.inside:
            recorded.add("LinearBackward", 1, around, now)
        recorded.add(f"ProfilerStep#{step}", 1, begin, now)
        recorded.ends_ns.append(now)
    recorded.add("aten::empty", 1, now + 1_000, now + 9_000)


def job_of(seed: int, *, inside: bool = False) -> list[Rank]:
    """A job in which ranks are late, mostly one of them."""
    chance = random.Random(seed)  # noqa: S311
    return [
        Rank(
            tuple(
                # Little work at the end, so that each thread has to wait.
                (*(1000 * chance.randint(800, 2_500) for _ in range(2)), 50_000)
                for _ in range(STEPS)
            ),
            sleep_ns=1000 * chance.choice([0, 300, 2_000]),
            inside=inside,
        )
        for _ in range(RANKS)
    ]


def write(folder: Path, job: list[Rank]) -> None:
    """Write a recording per rank."""
    group = {"rank": 0, "world_size": RANKS, "backend": "gloo"}
    for rank, recorded in enumerate(execute(job)):
        document = {
            "traceEvents": recorded.events,
            "distributedInfo": group | {"rank": rank},
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))


def ingest(folder: Path, database: tracedb.Database, job: list[Rank]) -> None:
    """Ingest the recordings of a job."""
    write(folder, job)
    database.ingest([folder], run="job")
