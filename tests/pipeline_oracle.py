"""The times of pipeline schedules, worked out by hand: guess, correct, repeat.

A rank's program is a list of what it does in order. Computing is in order. A kernel of
communication starts after the computing before it and the kernel before it on its
stream; it ends when all its messages have taken their time since both ends started.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Sent = tuple[str, int, int, int]
"""Direction, sender, receiver, microbatch."""
Time = Callable[[str, int], int]
"""[ns] Of a pass (`F` or `B`) of a stage."""


@dataclass(frozen=True)
class Compute:
    """A pass over a microbatch."""

    way: str


@dataclass(frozen=True)
class Kernel:
    """Messages that run together, on the stream of two ranks or of their group."""

    sent: tuple[Sent, ...]


@dataclass(frozen=True)
class Wait:
    """Computing waits for a kernel."""

    kernel: Kernel


Program = list[Compute | Kernel | Wait]


def _messages(
    way: str, rank: int, k: int, stages: int
) -> tuple[list[Sent], list[Sent]]:
    """What a pass over a microbatch receives, and what it sends."""
    on = 1 if way == "F" else -1
    before, after = rank - on, rank + on
    received = [(way, before, rank, k)] if 0 <= before < stages else []
    sent = [(way, rank, after, k)] if 0 <= after < stages else []
    return received, sent


def gpipe(rank: int, stages: int, count: int) -> Program:
    """All forward passes, then all backward ones; sends are waited for at the end."""
    done: Program = []
    for way in "FB":
        waits: Program = []
        for k in range(count):
            received, sent = _messages(way, rank, k, stages)
            done += _and_wait(received)
            done.append(Compute(way))
            done += [Kernel((one,)) for one in sent]
            waits += [Wait(Kernel((one,))) for one in sent]
        done += waits
    return done


def one_forward_one_backward(rank: int, stages: int, count: int) -> Program:
    """Forward passes until the pipeline is full, then alternating, then backward."""
    ahead = min(count, stages - rank)
    done: Program = []
    before: Program = []
    for k in range(ahead):
        received, sent = _messages("F", rank, k, stages)
        done += [*_and_wait(received), Compute("F"), *before]
        if k < ahead - 1:
            done += [Kernel((one,)) for one in sent]
            before = [Wait(Kernel((one,))) for one in sent]
    left: list[Sent] = []
    for k in range(count):
        received, back = _messages("B", rank, k, stages)
        forward = k + ahead
        if k <= count - ahead:
            done += _and_wait([*sent, *received])
        else:
            done += _and_wait(received)
        done.append(Compute("B"))
        if forward < count:
            coming, sent = _messages("F", rank, forward, stages)
            done += [*_and_wait([*back, *coming]), Compute("F")]
        else:
            done += [Wait(Kernel((one,))) for one in left]
            done += [Kernel((one,)) for one in back]
            left = back
    return done + [Wait(Kernel((one,))) for one in left]


def _and_wait(sent: list[Sent]) -> Program:
    """Run messages and wait for them: as one kernel if some are sends and some not."""
    if not sent:
        return []
    ways = {way for way, *_ in sent}
    kernels = [Kernel(tuple(sent))] if len(ways) > 1 else [Kernel((s,)) for s in sent]
    return [*kernels, *(Wait(kernel) for kernel in kernels)]


def ends(programs: list[Program], time: Time, message_ns: int, steps: int) -> list[int]:
    """[ns] When the last rank has finished each step."""
    starts: dict[tuple[int, int, Sent], int] = {}
    while True:
        found: dict[tuple[int, int, Sent], int] = {}
        done = [
            _run(rank, program, time, message_ns, steps, starts, found)
            for rank, program in enumerate(programs)
        ]
        if found == starts:
            return [max(of) for of in zip(*done, strict=True)]
        starts = found


def _run(  # noqa: PLR0913, PLR0917 (what a round of guesses takes)
    rank: int,
    program: Program,
    time: Time,
    message_ns: int,
    steps: int,
    guessed: dict[tuple[int, int, Sent], int],
    found: dict[tuple[int, int, Sent], int],
) -> list[int]:
    """Run a rank with guesses of when the kernels of others start."""
    now = 0
    free: dict[tuple[int, ...], int] = {}
    done = []
    for step in range(steps):
        over: dict[Kernel, int] = {}
        for act in program:
            if isinstance(act, Compute):
                now += time(act.way, rank)
            elif isinstance(act, Wait):
                now = max(now, over[act.kernel])
            else:
                single = len(act.sent) == 1
                stream = tuple(sorted(act.sent[0][1:3])) if single else ()
                start = max(now, free.get(stream, 0))
                ended = []
                for sent in act.sent:
                    found[rank, step, sent] = start
                    other = sent[1] if sent[2] == rank else sent[2]
                    met = guessed.get((other, step, sent), 0)
                    ended.append(max(start, met) + message_ns)
                over[act] = free[stream] = max(ended)
        done.append(max([now, *over.values()]))
    return done
