"""A training job with as many events and waits as one asks for.

One host thread works through 50 steps of small ops, each of which launches a kernel on
one of four streams. Waits are spread evenly between them: in turn a stream waits for an
event of another one, the host for a stream, a stream again, the host for the device.
Every launch and, on average, every wait makes five events of the file, since waits are
recorded too (`cuda_sync`), without which HTA does not know of them.

>>> job = waiting_job(events=1_000, waits=100)
>>> count_waits(job)
100
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from tracedb.synthetic import (
    Annotation,
    DeviceSync,
    EventRecord,
    EventSync,
    Gap,
    Launch,
    Op,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    step,
)
from tracedb.synthetic.program import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tracedb.synthetic import Action

STEPS = 50
STREAMS = (7, 20, 21, 22)
_EVENTS_PER_ACTION = 5
_OPS = (
    ("aten::mm", ((256, 512), (512, 1024))),
    ("aten::relu", ((256, 1024),)),
    ("aten::add", ((256, 1024), (256, 1024))),
    ("aten::mul", ((256, 1024), (256, 1024))),
)


def waiting_job(events: int, waits: int, seed: int = 0) -> Program:
    """Return a job of about so many events with exactly so many waits.

    Raises `ValueError` where that many events cannot hold that many waits.
    """
    launches = events // _EVENTS_PER_ACTION - waits
    if launches < max(waits, STEPS):
        raise ValueError(f"{waits:,} waits need more than {events:,} events")
    random = seeded(seed, events, waits)
    kinds = cycle(("stream_wait", "stream", "stream_wait", "device"))
    body: list[Action] = []
    for number in range(STEPS):
        actions: list[Action] = []
        for i in range(number * launches // STEPS, (number + 1) * launches // STEPS):
            stream = random.choice(STREAMS)
            if (i + 1) * waits // launches > i * waits // launches:
                actions += _wait(next(kinds), stream, random)
            actions += _op(stream, random)
        body += [step(number + 1, *actions), Gap(20_000)]
    return Program((Rank((Thread("main", tuple(body)),)),))


def _op(stream: int, random: Random) -> Iterator[Action]:
    """Yield an op that launches a kernel, and the Python time before it."""
    name, dims = random.choice(_OPS)
    launch = Launch(stream, random.randrange(5_000, 45_000))
    inside = Gap(random.randrange(500, 2_500)), launch, Gap(random.randrange(200, 900))
    yield Gap(random.randrange(500, 2_500))
    yield Op(name, inside, dims, ("float",) * len(dims))


def _wait(kind: str, stream: int, random: Random) -> Iterator[Action]:
    """Yield a wait: of a stream, or of the host for a stream or the device."""
    yield Gap(random.randrange(500, 1_500))
    if kind == "stream_wait":
        awaited = random.choice([other for other in STREAMS if other != stream])
        event = f"of stream {awaited}"
        yield EventRecord(event, awaited)
        yield StreamWait(stream, event)
    else:
        yield StreamSync(stream) if kind == "stream" else DeviceSync()


def count_waits(job: Program) -> int:
    """The number of waits of hosts and streams in a program."""
    threads = (thread for rank in job.ranks for thread in rank.threads)
    return sum(_count(thread.body) for thread in threads)


def _count(actions: tuple[Action, ...]) -> int:
    waits = (StreamWait, StreamSync, DeviceSync, EventSync)
    return sum(
        _count(action.body)
        if isinstance(action, Op | Annotation)
        else isinstance(action, waits)
        for action in actions
    )
