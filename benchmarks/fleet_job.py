"""A data-parallel job of many ranks, of which one is slow: the truth of it is known.

Each step computes some layers forward and backward; gradients of each layer are reduced
on a stream of their own, while the next one computes. The kernels of the slow rank take
half as long again, so all others wait for it in each collective.

>>> job = fleet_job(ranks=4, slow=2)
>>> waits = waited_for(job)
>>> max(waits, key=waits.get)
2
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

from tracedb.synthetic import (
    Collective,
    Delays,
    DeviceSync,
    EventRecord,
    Form,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamWait,
    Thread,
    execute,
    step,
)
from tracedb.synthetic.program import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tracedb.synthetic import Action, GeneratedTrace

STEPS, LAYERS = 4, 6
COMPUTE, COMMUNICATION = 7, 20
PER_HOST = 8
"""Ranks per host."""
_SLOWNESS = 1.5
_BEGAN_NS = 1_700_000_000_000_000_000


def fleet_job(ranks: int, slow: int, seed: int = 0) -> list[GeneratedTrace]:
    """Execute the job; returns one trace per rank."""
    programs = (_rank(seeded(seed, rank), rank == slow) for rank in range(ranks))
    return execute(Program(tuple(programs)), Delays(jitter=0.1), seed)


def _rank(random: Random, is_slow: bool) -> Rank:  # noqa: FBT001 (of two, one)
    body: list[Action] = []
    events = count()
    for number in range(1, STEPS + 1):
        body += [step(number, *_step(random, is_slow, events)), Gap(20_000)]
    return Rank((Thread("main", tuple(body)),))


def _step(random: Random, is_slow: bool, events: Iterator[int]) -> Iterator[Action]:  # noqa: FBT001
    for _ in range(LAYERS):
        yield from _layer("aten::mm", random, is_slow)
    for _ in range(LAYERS):
        yield from _layer("aten::mm_backward", random, is_slow)
        event = f"gradients {next(events)}"
        yield EventRecord(event, COMPUTE)
        yield StreamWait(COMMUNICATION, event)
        yield Op("c10d::allreduce_", (Gap(2_000), Collective(COMMUNICATION, 40_000)))
    yield DeviceSync()


def _layer(name: str, random: Random, is_slow: bool) -> Iterator[Action]:  # noqa: FBT001
    kernel_ns = round(random.randrange(90_000, 110_000) * (_SLOWNESS if is_slow else 1))
    yield Gap(random.randrange(1_000, 3_000))
    yield Op(name, (Gap(1_500), Launch(COMPUTE, kernel_ns), Gap(500)))


def waited_for(job: list[GeneratedTrace]) -> Counter[int]:
    """[ns] By how much sooner collectives had begun, had a rank come with the next one.

    What `tracedb lake ask LAKE straggler` finds, here by the truth of the job.
    """
    caused: Counter[int] = Counter()
    found = [
        sorted(
            (k.start_ns for k in trace.truth.kernels if k.kind == "collective"),
        )
        for trace in job
    ]
    for starts in zip(*found, strict=True):
        *_, (before, _), (last, rank) = sorted(
            (start, rank) for rank, start in enumerate(starts)
        )
        caused[rank] += last - before
    return caused


def write(job: list[GeneratedTrace], folder: Path) -> list[Path]:
    """Write the traces, named as PyTorch's handler does, so that hosts are known."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        trace.write(
            folder
            / f"host{rank // PER_HOST}_{1000 + rank}.{_BEGAN_NS + rank}.pt.trace.json",
            Form(sync_events=True),
        )
        for rank, trace in enumerate(job)
    ]
