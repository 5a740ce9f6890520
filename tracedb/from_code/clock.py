"""When the host and a stream are done: the arithmetic of a step laid out in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STREAM_GAP_NS = 1_000
"""[ns] Between two kernels of a stream, one of which waited for the other."""


@dataclass
class Clock:
    """The clocks of the host, which launches and waits, and of a stream.

    All that happens is noted in `said`, so that it can happen again with other times.
    """

    now: int = 1_000_000
    stream_free: int = 0
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

    def wait(self, least: int, delay: int) -> None:
        """The host waits for the stream, and returns so long after it."""
        self.now = max(self.now + least, self.stream_free + delay)
        self.said.append(("wait", least, delay))

    def again(
        self,
        said: Sequence[tuple[str, int, int]],
        duration: Callable[[int], int],
        factor: float = 1.0,
    ) -> int:
        """Let it happen, with other durations of the work; [ns] when all is done.

        `duration` is asked for the n-th work, `factor` is how much slower the host is.
        """
        number = 0
        for kind, first, second in said:
            if kind == "host":
                self.now += int(factor * first)
            elif kind == "call":
                self.now += first
            elif kind == "work":
                self.work(duration(number), second)
                number += 1
            else:
                self.wait(first, second)
        return self.done

    @property
    def done(self) -> int:
        """[ns] When both are done."""
        return max(self.now, self.stream_free)
