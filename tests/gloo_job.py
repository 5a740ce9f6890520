"""A small machine for jobs of ranks with collectives on the CPU.

Main threads compute, call collectives and wait for them; threads of a process group
carry them out. What PyTorch's profiler records of Gloo is written.
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
"""Until a collective begins as it is called, until a thread goes on; a call itself."""
Document = dict[str, Any]


@dataclass(frozen=True)
class Rank:
    """What a rank computes in each step, and how long its collectives move data."""

    compute_ns: tuple[tuple[int, ...], ...]
    """Of each step: the ops before the first call, between both calls, and after."""
    sleep_ns: int
    """In Python, at the begin of each step."""
    moving_ns: tuple[int, int] = (400_000, 700_000)
    waits: bool = True
    """Whether it waits until the others have begun, too."""


@dataclass
class Recorded:
    """The events of a rank, and when its steps end."""

    events: list[Document] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)

    def add(self, name: str, tid: int, start: int, end: int, **args: object) -> None:
        """Record something that a thread did."""
        kind = "user_annotation" if ":" in name or "#" in name else "cpu_op"
        kind = "cpu_op" if name.startswith(("aten", "c10d")) else kind
        fields = {"ph": "X", "cat": kind, "name": name, "pid": 7, "tid": tid}
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        self.events.append(fields | times | {"args": args})


def execute(job: list[Rank]) -> list[Recorded]:
    """Let all ranks run: each collective ends only after all have begun it."""
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
    """Run a rank: it yields when a collective begins, and gets when all have."""
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
        for ended in ends:
            now = max(now, ended) + RETURN_NS
            recorded.add("aten::copy_", 1, now, now + 20_000)
            now += 20_000 + 3_000
        recorded.add(f"ProfilerStep#{step}", 1, begin, now)
        recorded.ends_ns.append(now)
    recorded.add("aten::empty", 1, now + 1_000, now + 9_000)


def job_of(seed: int) -> list[Rank]:
    """A job in which different ranks are late, and mostly one."""
    chance = random.Random(seed)  # noqa: S311
    return [
        Rank(
            tuple(
                # Little at last, so that each thread has to wait.
                (*(1000 * chance.randint(800, 2_500) for _ in range(2)), 50_000)
                for _ in range(STEPS)
            ),
            sleep_ns=1000 * chance.choice([0, 300, 2_000]),
        )
        for _ in range(RANKS)
    ]


def write(folder: Path, job: list[Rank]) -> None:
    """Write what is recorded of a job: a file for each rank."""
    group = {"rank": 0, "world_size": RANKS, "backend": "gloo"}
    for rank, recorded in enumerate(execute(job)):
        document = {
            "traceEvents": recorded.events,
            "distributedInfo": group | {"rank": rank},
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(document))


def ingest(folder: Path, database: tracedb.Database, job: list[Rank]) -> None:
    """Put what is recorded of a job into a database."""
    write(folder, job)
    database.ingest([folder], run="job")
