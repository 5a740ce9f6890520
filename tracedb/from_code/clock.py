"""The host's and the streams' clocks, with which a step is laid out in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STREAM_GAP_NS = 1_000
"""[ns] The gap between kernels that run back to back on a stream."""


@dataclass
class Clock:
    """The clocks of the host and of two streams: one computes, one communicates.

    Everything is logged in `log`, so that `replay` can repeat it with other times.
    """

    now: int = 1_000_000
    stream_free: int = 0
    communication_ends: list[int] = field(default_factory=list)
    log: list[tuple[str, int, int]] = field(default_factory=list)

    def host(self, duration: int) -> None:
        """Advance the host by CPU work, whose time depends on how fast the host is."""
        self.now += duration
        self.log.append(("host", duration, 0))

    def call(self, duration: int) -> None:
        """Advance the host by a CUDA call or a change of threads."""
        self.now += duration
        self.log.append(("call", duration, 0))

    def work(self, duration: int, gap: int = STREAM_GAP_NS) -> tuple[int, int]:
        """Add work to the computing stream; return when it starts and ends [ns]."""
        start = max(self.now, self.stream_free + gap)
        self.stream_free = start + duration
        self.log.append(("work", duration, gap))
        return start, self.stream_free

    def communicate(self, duration: int, gap: int = STREAM_GAP_NS) -> tuple[int, int]:
        """Add work to the communication stream, after all computing so far."""
        before = max(self.stream_free, self.communication_free)
        start = max(self.now, before + gap)
        self.communication_ends.append(start + duration)
        self.log.append(("communicate", duration, gap))
        return start, self.communication_free

    @property
    def communication_free(self) -> int:
        """[ns] When all communication so far is done."""
        return self.communication_ends[-1] if self.communication_ends else 0

    def join(self, before_last: int = 0) -> None:
        """Computing waits for all communication but for the last `before_last`."""
        if before_last < len(self.communication_ends):
            awaited = self.communication_ends[-1 - before_last]
            self.stream_free = max(self.stream_free, awaited)
        self.log.append(("join", before_last, 0))

    def drain(self) -> None:
        """Computing waits for all communication."""
        self.stream_free = max(
            self.stream_free, max(self.communication_ends, default=0)
        )
        self.log.append(("drain", 0, 0))

    def wait(self, least: int, delay: int) -> None:
        """The host waits for the computing stream, and returns `delay` after it."""
        self.now = max(self.now + least, self.stream_free + delay)
        self.log.append(("wait", least, delay))

    def replay(self, log: Sequence[Entry], durations: Sequence[int]) -> int:
        """Repeat a log with other durations of GPU work; return the end [ns]."""
        number = 0
        for kind, first, second in log:
            if kind == "work":
                self.work(durations[number], second)
                number += 1
            elif kind == "wait":
                self.wait(first, second)
            elif kind == "communicate":
                self.communicate(durations[number], second)
                number += 1
            elif kind == "join":
                self.join(first)
            elif kind == "drain":
                self.drain()
            else:
                self.now += first
        return self.done

    @property
    def done(self) -> int:
        """[ns] When the host and both streams are done."""
        return max(self.now, self.stream_free, self.communication_free)


Entry = tuple[str, int, int]
"""A log entry: its kind and its two numbers."""


@dataclass(frozen=True)
class Course:
    """The log entries of the host and the streams, by step."""

    steps: tuple[tuple[Entry, ...], ...]

    @classmethod
    def of(cls, log: Sequence[Entry], count: int) -> Course:
        """Split the log of `count` equal steps."""
        each = len(log) // count
        return cls(tuple(tuple(log[n * each : (n + 1) * each]) for n in range(count)))

    def slowed(self, factor: float) -> Course:
        """Scale host times by `factor`, and merge adjacent ones."""
        return Course(tuple(tuple(_joined(step, factor)) for step in self.steps))

    def last_step_ns(self, durations: Sequence[int]) -> int:
        """[ns] The last step, if the GPU work of each step takes `durations`."""
        clock = Clock()
        ends = [clock.replay(step, durations) for step in self.steps]
        return ends[-1] - ends[-2]


def _joined(step: Sequence[Entry], factor: float) -> Iterator[Entry]:
    """A step with the host times between two GPU entries merged into one."""
    busy = 0
    for kind, first, second in step:
        if kind == "host":
            busy += int(factor * first)
        elif kind == "call":
            busy += first
        else:
            yield "call", busy, 0
            busy = 0
            yield kind, first, second
    yield "call", busy, 0
