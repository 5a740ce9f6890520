"""The host's and the streams' clocks, with which a step is laid out in time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

DEFAULT_STREAM = 0
STREAM_GAP_NS = 1_000
"""[ns] The gap between kernels that run back to back on a stream."""


class Entry(NamedTuple):
    """A log entry: its kind, its two numbers, and the streams concerned.

    `stream` computes, or is the one that waits; `channel` communicates.
    """

    kind: str
    first: int = 0
    second: int = 0
    stream: int = DEFAULT_STREAM
    channel: int = 0


@dataclass
class Clock:
    """The clocks of the host, of streams that compute, and of those that communicate.

    Everything is logged in `log`, so that `replay` can repeat it with other times.
    """

    now: int = 1_000_000
    streams: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """[ns] When each computing stream has done what is known."""
    channels: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """[ns] The same of each stream of communication."""
    communication_ends: list[int] = field(default_factory=list)
    """[ns] The ends of communication, in the order of the calls."""
    events: list[int] = field(default_factory=list)
    """[ns] When each recorded event is reached, in the order of the calls."""
    log: list[Entry] = field(default_factory=list)

    @classmethod
    def later(cls, delay: int) -> Self:
        """A clock that starts `delay` [ns] later."""
        return cls(now=cls.now + delay)

    def host(self, duration: int) -> None:
        """Advance the host by CPU work, whose time depends on how fast the host is."""
        self.now += duration
        self.log.append(Entry("host", duration))

    def call(self, duration: int) -> None:
        """Advance the host by a CUDA call or a change of threads."""
        self.now += duration
        self.log.append(Entry("call", duration))

    def work(
        self, duration: int, gap: int = STREAM_GAP_NS, stream: int = DEFAULT_STREAM
    ) -> tuple[int, int]:
        """Add work to a computing stream; return when it starts and ends [ns]."""
        start = max(self.now, self.streams[stream] + gap)
        self.streams[stream] = start + duration
        self.log.append(Entry("work", duration, gap, stream))
        return start, start + duration

    def communicate(
        self,
        duration: int,
        gap: int = STREAM_GAP_NS,
        stream: int = DEFAULT_STREAM,
        channel: int = 0,
    ) -> tuple[int, int]:
        """Add work to a stream of communication, after what `stream` has computed."""
        before = max(self.streams[stream], self.channels[channel])
        start = max(self.now, before + gap)
        self.channels[channel] = start + duration
        self.communication_ends.append(start + duration)
        self.log.append(Entry("communicate", duration, gap, stream, channel))
        return start, start + duration

    def join(self, before_last: int = 0, stream: int = DEFAULT_STREAM) -> None:
        """Let a stream wait for the communication `before_last` before the last."""
        if before_last < len(self.communication_ends):
            self.hold(stream, self.communication_ends[-1 - before_last])
        self.log.append(Entry("join", before_last, 0, stream))

    def hold(self, stream: int, until: int) -> None:
        """Let a stream wait until a time [ns]."""
        self.streams[stream] = max(self.streams[stream], until)

    def record(self, stream: int) -> None:
        """Record an event on a stream."""
        self.events.append(self.streams[stream])
        self.log.append(Entry("record", 0, 0, stream))

    def await_event(self, back: int, stream: int) -> None:
        """Let a stream wait for the event `back` before the last one."""
        self.hold(stream, self._event(back))
        self.log.append(Entry("await", back, 0, stream))

    def _event(self, back: int) -> int:
        """[ns] When an event is reached; 0 if it was recorded before all steps."""
        return self.events[-1 - back] if back < len(self.events) else 0

    def drain(self) -> None:
        """Let the default stream wait for all others."""
        ends = [*self.streams.values(), *self.communication_ends]
        self.hold(DEFAULT_STREAM, max(ends, default=0))
        self.log.append(Entry("drain"))

    def wait(self, least: int, delay: int, stream: int = DEFAULT_STREAM) -> None:
        """The host waits for a computing stream, and returns `delay` after it."""
        self.now = max(self.now + least, self.streams[stream] + delay)
        self.log.append(Entry("wait", least, delay, stream))

    def reach(self, least: int, delay: int, back: int) -> None:
        """The host waits for the event `back` before the last one."""
        self.now = max(self.now + least, self._event(back) + delay)
        self.log.append(Entry("reach", least, delay, back))

    def replay(self, log: Sequence[Entry], durations: Sequence[int]) -> int:
        """Repeat a log with other durations of GPU work; return the end [ns]."""
        works = iter(durations)
        for entry in log:
            if entry.kind == "work":
                self.work(next(works), entry.second, entry.stream)
            elif entry.kind == "communicate":
                _, gap, stream, channel = entry[1:]
                self.communicate(next(works), gap, stream, channel)
            elif entry.kind == "join":
                self.join(entry.first, entry.stream)
            else:
                self.repeat(entry)
        return self.done

    def repeat(self, entry: Entry) -> None:
        """Repeat what is neither GPU work nor a wait for communication."""
        kind, first, second, stream, _ = entry
        if kind == "record":
            self.record(stream)
        elif kind == "await":
            self.await_event(first, stream)
        elif kind == "wait":
            self.wait(first, second, stream)
        elif kind == "reach":
            self.reach(first, second, stream)
        elif kind == "drain":
            self.drain()
        else:
            self.now += first

    @property
    def done(self) -> int:
        """[ns] When the host and all streams are done."""
        return max(self.now, *self.streams.values(), *self.channels.values(), 0)


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
    for entry in step:
        if entry.kind == "host":
            busy += int(factor * entry.first)
        elif entry.kind == "call":
            busy += entry.first
        else:
            yield Entry("call", busy)
            busy = 0
            yield entry
    yield Entry("call", busy)
