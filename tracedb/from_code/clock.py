"""When the host and a stream are done: the arithmetic of a step laid out in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STREAM_GAP_NS = 1_000
"""[ns] Between two kernels of a stream, one of which waited for the other."""


@dataclass
class Clock:
    """The clocks of the host, which launches and waits, and of its streams.

    One stream computes, another one communicates: what is done apart.

    All that happens is noted in `said`, so that it can happen again with other times.
    """

    now: int = 1_000_000
    stream_free: int = 0
    apart_ends: list[int] = field(default_factory=list)
    said: list[tuple[str, int, int]] = field(default_factory=list)

    def host(self, duration: int) -> None:
        """The host computes: as long as the host that its times are of is fast."""
        self.now += duration
        self.said.append(("host", duration, 0))

    def call(self, duration: int) -> None:
        """The host is in a call of CUDA's, or changes threads."""
        self.now += duration
        self.said.append(("call", duration, 0))

    def work(self, duration: int, gap: int = STREAM_GAP_NS) -> tuple[int, int]:
        """The stream gets work; say from when to when it does it."""
        start = max(self.now, self.stream_free + gap)
        self.stream_free = start + duration
        self.said.append(("work", duration, gap))
        return start, self.stream_free

    def apart(self, duration: int, gap: int = STREAM_GAP_NS) -> tuple[int, int]:
        """The other stream gets work, which needs what was computed until now."""
        before = max(self.stream_free, self.apart_free)
        start = max(self.now, before + gap)
        self.apart_ends.append(start + duration)
        self.said.append(("apart", duration, gap))
        return start, self.apart_free

    @property
    def apart_free(self) -> int:
        """[ns] When all is done that was put apart."""
        return self.apart_ends[-1] if self.apart_ends else 0

    def join(self, before_last: int = 0) -> None:
        """What is computed from now on needs what was put apart, but for the last."""
        if before_last < len(self.apart_ends):
            awaited = self.apart_ends[-1 - before_last]
            self.stream_free = max(self.stream_free, awaited)
        self.said.append(("join", before_last, 0))

    def wait(self, least: int, delay: int) -> None:
        """The host waits for the stream, and returns so long after it."""
        self.now = max(self.now + least, self.stream_free + delay)
        self.said.append(("wait", least, delay))

    def again(self, said: Sequence[Said], durations: Sequence[int]) -> int:
        """Let it happen, with other durations of the work; [ns] when all is done."""
        number = 0
        for kind, first, second in said:
            if kind == "work":
                self.work(durations[number], second)
                number += 1
            elif kind == "wait":
                self.wait(first, second)
            elif kind == "apart":
                self.apart(durations[number], second)
                number += 1
            elif kind == "join":
                self.join(first)
            else:
                self.now += first
        return self.done

    @property
    def done(self) -> int:
        """[ns] When all are done."""
        return max(self.now, self.stream_free, self.apart_free)


Said = tuple[str, int, int]
"""What happens: of which kind, and with which times."""


@dataclass(frozen=True)
class Course:
    """What the host and a stream do in turn in each of some steps."""

    steps: tuple[tuple[Said, ...], ...]

    @classmethod
    def of(cls, said: Sequence[Said], count: int) -> Course:
        """Take what was said in so many equal steps apart."""
        each = len(said) // count
        return cls(tuple(tuple(said[n * each : (n + 1) * each]) for n in range(count)))

    def slowed(self, factor: float) -> Course:
        """The same by a host that takes so much longer, in as few parts as can be."""
        return Course(tuple(tuple(_joined(step, factor)) for step in self.steps))

    def last_step_ns(self, durations: Sequence[int]) -> int:
        """[ns] The last step, if its work and that of those before it take so long."""
        clock = Clock()
        ends = [clock.again(step, durations) for step in self.steps]
        return ends[-1] - ends[-2]


def _joined(step: Sequence[Said], factor: float) -> Iterator[Said]:
    """A step with what the host does between two works, or waits, as one."""
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
