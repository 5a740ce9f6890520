"""Time a piece of work many times: on the host's clock, or on the GPU's own.

Caches. On a CPU the work runs warm, call after call, but for the plan of a CPU: behind
other work, with tensors that take turns. On a GPU the level-2 cache is
written over before each call, since between two calls of an op a training step has
used the cache for other things.
"""

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from statistics import median
from time import perf_counter_ns
from typing import Any, Protocol

LEAST_FLUSH_BYTES = 256 * 2**20
"""What a flush writes, or four times the cache where that is more."""


@dataclass(frozen=True)
class Effort:
    """How much of it a case gets, each time it is visited."""

    repeats: int = 10
    """At least so many samples, unless they last longer than `most_ns`."""
    most: int = 30
    least_ns: float = 15e6
    """At least so much time in samples, unless there are `most` of them."""
    most_ns: float = 600e6
    sample_ns: float = 100e3
    """On the host, the shortest sample: quicker work is called several times for it."""
    warmup: int = 3

    def is_enough(self, samples: list[float], spent_ns: float) -> bool:
        """Whether a case has had its share."""
        if spent_ns >= self.most_ns and len(samples) >= self.warmup:
            return True
        if len(samples) < self.repeats:
            return False
        return len(samples) >= self.most or spent_ns >= self.least_ns


class Timer(Protocol):
    """Takes samples of the time that one call of the work lasts, in nanoseconds."""

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Warm up, then time."""


class HostTimer:
    """Times work that is over when the call returns.

    Work of one thread is best timed by the thread's own clock (`time.thread_time_ns`),
    which stands while the system gives the core to another program. For the same end a
    sample in which it did so is taken anew, unless nearly all of them are like that.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        """Take the clock, of nanoseconds."""
        self._clock = clock

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Time samples of `effort.sample_ns` at least, each of so many calls."""
        single = min(self._call_ns(work, 1) for _ in range(effort.warmup))
        calls = max(1, ceil(effort.sample_ns / max(single, 1)))
        self._call_ns(work, calls)
        whole: list[float] = []
        disturbed: list[float] = []
        spent = 0.0
        while not effort.is_enough(whole, spent):
            before = _interruptions()
            sample = self._call_ns(work, calls)
            is_whole = _interruptions() == before
            (whole if is_whole else disturbed).append(sample / calls)
            spent += sample
            if spent >= effort.most_ns and len(whole + disturbed) >= effort.warmup:
                break
        return whole if len(whole) >= effort.warmup else whole + disturbed

    def _call_ns(self, work: Callable[[], object], calls: int) -> int:
        """Take the time of so many calls, one after another."""
        start = self._clock()
        for _ in range(calls):
            work()
        return self._clock() - start


class ColdTimer:
    """Times single calls, each behind other work, as ops lie in a training step.

    There, caches and predictors of branches have seen other ops since its last call:
    small ones take two to three times as long as in a loop.
    """

    def __init__(self, disturb: Callable[[], object]) -> None:
        """Take the other work."""
        self._disturb = disturb

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Time calls, all but those in which the system ran another program."""
        for _ in range(effort.warmup):
            work()
        whole: list[float] = []
        disturbed: list[float] = []
        spent = 0.0
        while not effort.is_enough(whole, spent):
            self._disturb()
            before = _interruptions()
            start = perf_counter_ns()
            work()
            sample = float(perf_counter_ns() - start)
            (whole if _interruptions() == before else disturbed).append(sample)
            spent += sample
            if spent >= effort.most_ns and len(whole + disturbed) >= effort.warmup:
                break
        return whole if len(whole) >= effort.warmup else whole + disturbed


def _interruptions() -> int:
    """Count how often the system has taken a core from this program."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Gpu(Protocol):
    """What a timer of a GPU needs of the package that drives it."""

    def mark(self) -> Any:  # noqa: ANN401 (each package has its own events)
        """Record an event behind all work so far."""

    def between_ns(self, start: Any, end: Any) -> float:  # noqa: ANN401
        """Give the time from one event to another; both must be over."""

    def synchronize(self) -> None:
        """Wait until the GPU has done all it was given."""

    def flush(self) -> None:
        """Write over the level-2 cache."""


@dataclass(frozen=True)
class Overhead:
    """What two events around a kernel measure beside the kernel itself."""

    pair_ns: float = 0.0
    """Median between two events around the smallest kernel."""
    kernel_ns: float = 0.0
    """How long that kernel lasts, as the profiler has it; 0: not known."""

    def without(self, pair_ns: float) -> float:
        """Take the overhead from a time; no work is quicker than the smallest kernel.

        >>> Overhead(5000, 1500).without(10_000)
        6500
        """
        if not self.kernel_ns:
            return pair_ns
        return max(pair_ns - (self.pair_ns - self.kernel_ns), self.kernel_ns)


class EventTimer:
    """Times work on a GPU between two events, with a cold cache and no launch in it.

    The cache is flushed before each call as often as it takes for the host to hand the
    whole call over meanwhile, so that the GPU never waits for the host.
    """

    def __init__(self, gpu: Gpu, overhead: Overhead | None = None) -> None:
        """Take the GPU, and what events cost on it."""
        self.gpu, self.overhead = gpu, overhead or Overhead()
        self._flush_ns = self._time_flush()

    def _time_flush(self) -> float:
        """Take the time of a flush, so that calls know how many they need."""
        pairs = [self._pair(self.gpu.flush, 1) for _ in range(5)]
        self.gpu.synchronize()
        return median(self.gpu.between_ns(*pair) for pair in pairs)

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Time calls, a batch at a time, without waiting for the GPU in between.

        Work of seconds is called a few times in all, or once.
        """
        host_ns, whole_ns = self._warm_up(work, effort)
        flushes = 1 + ceil(host_ns / max(self._flush_ns, 1))
        most = max(1, min(effort.repeats, int(effort.most_ns / max(whole_ns, 1))))
        taken: list[float] = []
        spent = 0.0
        while not effort.is_enough(taken, spent):
            if taken and whole_ns > effort.most_ns:
                break
            for sample in self._batch(
                work, flushes, 1 if spent > effort.least_ns else most
            ):
                taken.append(self.overhead.without(sample))
                spent += sample
        return taken

    def _warm_up(
        self, work: Callable[[], object], effort: Effort
    ) -> tuple[float, float]:
        """Say how long the host takes to hand over a call, and all of it lasts."""
        handed, whole = [], []
        for _ in range(effort.warmup):
            start = perf_counter_ns()
            work()
            handed.append(perf_counter_ns() - start)
            self.gpu.synchronize()
            whole.append(perf_counter_ns() - start)
            if sum(whole) > effort.most_ns:
                break
        return min(handed), min(whole)

    def _batch(
        self, work: Callable[[], object], flushes: int, count: int
    ) -> Iterator[float]:
        """Time so many calls."""
        pairs = [self._pair(work, flushes) for _ in range(count)]
        self.gpu.synchronize()
        return (self.gpu.between_ns(*pair) for pair in pairs)

    def _pair(self, work: Callable[[], object], flushes: int) -> tuple[Any, Any]:
        """Put two events around a call, behind so many flushes."""
        for _ in range(flushes):
            self.gpu.flush()
        start = self.gpu.mark()
        work()
        return start, self.gpu.mark()
