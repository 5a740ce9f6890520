"""A small simulator of jobs whose ranks send to one another on the CPU.

Main threads post sends and receives, compute meanwhile, and wait for them later. It
writes what PyTorch's profiler records of Gloo.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

CALL_NS, MOVING_NS, GAP_NS, FRAME_NS = 30_000, 90_000, 4_000, 2_000
"""The op that posts, moving the data, Python between ops, leaving `wait`."""
STEPS = 5
Document = dict[str, Any]


@dataclass(frozen=True)
class Compute:
    """An op, after some time in Python."""

    ns: int
    sleep_ns: int = 0


@dataclass(frozen=True)
class Post:
    """Post a send or a receive; messages between two ranks keep their order."""

    label: str
    peer: int
    sends: bool


@dataclass(frozen=True)
class Wait:
    """Wait for what was posted with that label."""

    label: str


Instruction = Compute | Post | Wait
Program = tuple[tuple[Instruction, ...], ...]
"""Of a rank: the instructions of each step."""


@dataclass(frozen=True)
class Job:
    """The programs of all ranks, and which ranks do not wait for others."""

    programs: tuple[Program, ...]
    careless: frozenset[int] = frozenset()


@dataclass
class Recorded:
    """The events of a rank, the ends of its steps, and its waits for other ranks."""

    events: list[Document] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)
    waiting_ns: int = 0
    computing_ns: int = 0

    def add(self, cat: str, name: str, start: int, end: int, **args: object) -> None:
        """Record an event of the main thread."""
        fields = {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": 1}
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        self.events.append(fields | times | {"args": args})


@dataclass
class _Posted:
    """A message of a rank: the ends of the two that make one share a key."""

    key: tuple[int, int, int]
    op_ns: int
    range_ns: int
    peer: int
    sends: bool


class _Rank:
    """A rank that runs until it waits for what another one has not posted yet."""

    def __init__(self, job: Job, number: int, posts: dict[Any, int]) -> None:
        self.recorded = Recorded()
        self._number, self._posts = number, posts
        self._waits = number not in job.careless
        self._now = 5_000
        self._counts: dict[tuple[int, int], Iterator[int]] = {}
        self._posted: dict[str, _Posted] = {}
        self.running = self._run(job.programs[number])

    def _run(self, program: Program) -> Iterator[None]:
        of = self.recorded
        of.add("cpu_op", "aten::empty", 0, self._now)
        for step, instructions in enumerate(program):
            begin, self._now = self._now, self._now + 10_000
            for instruction in instructions:
                match instruction:
                    case Compute():
                        self._compute(instruction)
                    case Post():
                        self._post(instruction)
                    case Wait():
                        yield from self._wait(self._posted.pop(instruction.label))
                self._now += GAP_NS
            of.add("user_annotation", f"ProfilerStep#{step}", begin, self._now)
            of.ends_ns.append(self._now)
        of.add("cpu_op", "aten::empty", self._now + 1_000, self._now + 9_000)

    def _compute(self, compute: Compute) -> None:
        begin = self._now + compute.sleep_ns
        self._now = begin + compute.ns
        self.recorded.add("cpu_op", "aten::linear", begin, self._now)
        self.recorded.add("cpu_op", "aten::addmm", begin + 1_000, self._now - 1_000)
        self.recorded.computing_ns += compute.ns

    def _post(self, post: Post) -> None:
        ends = (self._number, post.peer) if post.sends else (post.peer, self._number)
        number = next(self._counts.setdefault(ends, count()))
        begin, self._now = self._now, self._now + CALL_NS
        name = "c10d::send" if post.sends else "c10d::recv_"
        values = ["", "", str(post.peer), "0"]
        sizes = [[[64, 512]], [], [], []]
        args = {"Concrete Inputs": values, "Input Dims": sizes}
        self.recorded.add("cpu_op", name, begin, self._now, **args)
        self._posts[*ends, number, post.sends] = begin
        self._posted[post.label] = _Posted(
            (*ends, number), begin, self._now - 5_000, post.peer, post.sends
        )

    def _wait(self, posted: _Posted) -> Iterator[None]:
        other = (*posted.key, not posted.sends)
        while other not in self._posts:
            yield
        begin = self._now
        arrived = max(begin, self._posts[other]) if self._waits else begin
        self.recorded.waiting_ns += arrived - begin
        self._now = arrived + MOVING_NS
        name = "gloo:send" if posted.sends else "gloo:recv"
        size = {"Input Dims": [[64, 512]], "Input type": ["float"]}
        self.recorded.add("user_annotation", name, posted.range_ns, self._now, **size)
        self._now += FRAME_NS
        frame = "<built-in method wait of Work object at 0x7f>"
        self.recorded.add("python_function", frame, begin, self._now)


def execute(job: Job) -> list[Recorded]:
    """Run all ranks; a message is over once both have posted it, and data moved."""
    posts: dict[Any, int] = {}
    ranks = [_Rank(job, number, posts) for number in range(len(job.programs))]
    running = list(ranks)
    while running:
        known = len(posts)
        ended = [rank for rank in running if next(rank.running, rank) is rank]
        running = [rank for rank in running if rank not in ended]
        assert ended or len(posts) > known, "the ranks wait for each other"
    return [rank.recorded for rank in ranks]


def ring(chance: random.Random, ranks: int) -> Job:
    """Ranks that pass something on in a circle while they compute."""

    def step(rank: int) -> Iterator[Instruction]:
        yield Compute(_time(chance), chance.choice([0, 0, 1_500_000]))
        for turn in range(ranks - 1):
            yield Post(f"s{turn}", (rank + 1) % ranks, sends=True)
            yield Post(f"r{turn}", (rank - 1) % ranks, sends=False)
            yield Compute(_time(chance))
            yield Wait(f"s{turn}")
            yield Wait(f"r{turn}")
        yield Compute(_time(chance))

    return _job(step, ranks)


def pipeline(chance: random.Random, ranks: int) -> Job:
    """Stages of a pipeline: batches go forward, then back; sends are awaited late."""
    batches = range(3)

    def step(rank: int) -> Iterator[Instruction]:
        for to, back in ((rank + 1, rank - 1), (rank - 1, rank + 1)):
            for batch in batches:
                if 0 <= back < ranks:
                    yield Post(f"{back}r{batch}", back, sends=False)
                    yield Wait(f"{back}r{batch}")
                yield Compute(_time(chance))
                if 0 <= to < ranks:
                    yield Post(f"{to}s{batch}", to, sends=True)
            if 0 <= to < ranks:
                yield from (Wait(f"{to}s{batch}") for batch in batches)
        yield Compute(_time(chance))

    return _job(step, ranks)


def _job(step: Callable[[int], Iterator[Instruction]], ranks: int) -> Job:
    return Job(
        tuple(tuple(tuple(step(rank)) for _ in range(STEPS)) for rank in range(ranks))
    )


def _time(chance: random.Random) -> int:
    return 1000 * chance.randint(200, 2_000)


def computing(job: Job, rank: int, factor: float) -> Job:
    """The job with other compute times of a rank."""
    changed = tuple(
        tuple(
            replace(one, ns=round(one.ns * factor)) if isinstance(one, Compute) else one
            for one in step
        )
        for step in job.programs[rank]
    )
    programs = list(job.programs)
    programs[rank] = changed
    return replace(job, programs=tuple(programs))


def write(
    folder: Path,
    job: Job,
    *,
    stacks: bool = True,
    shapes: bool = True,
    late_ns: tuple[int, ...] = (),
) -> None:
    """Write a recording per rank; the clocks of some may be late."""
    ranks = len(job.programs)
    for rank, recorded in enumerate(execute(job)):
        events = [
            event | {"args": event["args"] if shapes else {}}
            for event in recorded.events
            if stacks or event["cat"] != "python_function"
        ]
        late = late_ns[rank] if rank < len(late_ns) else 0
        events = [event | {"ts": event["ts"] + late / 1000} for event in events]
        group = {"rank": rank, "world_size": ranks, "backend": "gloo"}
        group["pg_config"] = [{"pg_name": "0", "ranks": list(range(ranks))}]
        document = {"traceEvents": events, "distributedInfo": group}
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
