"""Time work repeatedly: on the host's clock, or on the GPU's own.

Caches: on a CPU the work runs with warm caches, call after call, except in the plan
`cpu`, where it runs after other work, with alternating tensors. On a GPU the L2 cache
is flushed before each call, because in a training step other ops use the cache between
two calls of an op.
"""

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from statistics import median
from time import perf_counter_ns
from typing import Any, Protocol

LEAST_FLUSH_BYTES = 256 * 2**20
"""[B] What a flush writes at least; else four times the cache."""


@dataclass(frozen=True)
class Effort:
    """The effort per visit of a case."""

    repeats: int = 10
    """The least number of samples, unless they take longer than `most_ns`."""
    most: int = 30
    least_ns: float = 15e6
    """[ns] The least total time of samples, unless there are `most` of them."""
    most_ns: float = 600e6
    sample_ns: float = 100e3
    """[ns] The shortest sample on the host; faster work is called several times."""
    warmup: int = 3

    def is_enough(self, samples: list[float], spent_ns: float) -> bool:
        """Whether a case has enough samples."""
        if spent_ns >= self.most_ns and len(samples) >= self.warmup:
            return True
        if len(samples) < self.repeats:
            return False
        return len(samples) >= self.most or spent_ns >= self.least_ns


class Timer(Protocol):
    """Takes samples of the time of one call of the work [ns]."""

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Warm up, then time."""


class HostTimer:
    """Times work that is over when the call returns.

    Single-threaded work is best timed by the thread's clock (`time.thread_time_ns`),
    which stops while the system runs another program. For the same reason, samples with
    such an interruption are repeated, unless nearly all have one.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        """Take the clock, of nanoseconds."""
        self._clock = clock

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Time samples of at least `effort.sample_ns`, each of several calls."""
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
        """[ns] The time of `calls` calls, one after another."""
        start = self._clock()
        for _ in range(calls):
            work()
        return self._clock() - start


class ColdTimer:
    """Times single calls, each after other work, as in a training step.

    There, other ops have used caches and branch predictors since the last call, and
    small ops take two to three times as long as in a loop.
    """

    def __init__(self, disturb: Callable[[], object]) -> None:
        """Take the other work."""
        self._disturb = disturb

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Time calls, except those in which the system ran another program."""
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
    """The number of involuntary context switches of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Gpu(Protocol):
    """The interface that GPU timers need from a package."""

    def mark(self) -> Any:  # noqa: ANN401 (each package has its own events)
        """Record an event after all work so far."""

    def between_ns(self, start: Any, end: Any) -> float:  # noqa: ANN401
        """[ns] The time from one event to another; both must be over."""

    def synchronize(self) -> None:
        """Wait for the GPU to finish all work."""

    def flush(self) -> None:
        """Flush the L2 cache."""


@dataclass(frozen=True)
class Overhead:
    """The overhead of measuring a kernel between two events."""

    pair_ns: float = 0.0
    """[ns] The median time between two events around the smallest kernel."""
    kernel_ns: float = 0.0
    """[ns] The duration of that kernel by the profiler; 0 if unknown."""

    def without(self, pair_ns: float) -> float:
        """Subtract the overhead; the result is at least the smallest kernel's time.

        >>> Overhead(5000, 1500).without(10_000)
        6500
        """
        if not self.kernel_ns:
            return pair_ns
        return max(pair_ns - (self.pair_ns - self.kernel_ns), self.kernel_ns)


class EventTimer:
    """Times work on a GPU between two events, with a cold cache and no launch overhead.

    Before each call, the cache is flushed as often as it takes for the host to launch
    the whole call in the meantime, so that the GPU never waits for the host.
    """

    def __init__(self, gpu: Gpu, overhead: Overhead | None = None) -> None:
        """Take the GPU, and the overhead of its events."""
        self.gpu, self.overhead = gpu, overhead or Overhead()
        self._flush_ns = self._time_flush()

    def _time_flush(self) -> float:
        """[ns] The time of a flush, to choose the number of flushes."""
        pairs = [self._pair(self.gpu.flush, 1) for _ in range(5)]
        self.gpu.synchronize()
        return median(self.gpu.between_ns(*pair) for pair in pairs)

    def samples(self, work: Callable[[], object], effort: Effort) -> list[float]:
        """Time calls, a batch at a time, without waiting for the GPU in between.

        Work that takes seconds is called a few times, or once.
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
        """[ns] The time in which the host launches a call, and the total time."""
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
        """Time `count` calls."""
        pairs = [self._pair(work, flushes) for _ in range(count)]
        self.gpu.synchronize()
        return (self.gpu.between_ns(*pair) for pair in pairs)

    def _pair(self, work: Callable[[], object], flushes: int) -> tuple[Any, Any]:
        """Record two events around a call, after `flushes` flushes."""
        for _ in range(flushes):
            self.gpu.flush()
        start = self.gpu.mark()
        work()
        return start, self.gpu.mark()
