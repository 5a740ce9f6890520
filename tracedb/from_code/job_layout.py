"""Lay out the steps of all ranks of a job in time, each as a trace of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracedb.errors import EstimateError
from tracedb.from_code.clock import Clock, Course
from tracedb.from_code.events import Machine, trace_text
from tracedb.from_code.joint import Solved, solve
from tracedb.from_code.layout import STEPS, busy_ns, last_step
from tracedb.from_code.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.job_recording import RankSubject
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.pricing import Device, KernelTime


_LATEST_NS = 3_600_000_000_000


@dataclass(frozen=True)
class RankTimes:
    """One rank of a job that does different work, such as a stage of a pipeline.

    `step_ns` is its own step; `active_ns` is how long its GPU runs anything, and
    `computing_ns` anything but communication, which includes waiting for other ranks.
    `idle_share` is the rest of the job's step: bubbles, exposed messages, and gaps.
    """

    rank: int
    step_ns: int
    active_ns: int
    computing_ns: int
    idle_share: float
    kernel_count: int
    memory: Memory


def checked_starts(starts: Sequence[int], count: int) -> tuple[int, ...]:
    """[ns] When each rank starts after the first one; empty where not given.

    Raises `EstimateError` unless there is one for each of several ranks.
    """
    if not starts:
        return ()
    if count == 1:
        raise EstimateError(
            "start times are of ranks that are simulated together; one alone is "
            "estimated here"
        )
    if len(starts) != count:
        raise EstimateError(f"{len(starts)} start times for {count} ranks")
    if not all(abs(start) < _LATEST_NS for start in starts):
        raise EstimateError("start times are at most an hour apart")
    return tuple(start - min(starts) for start in starts)


class _Known(Clock):
    """A clock whose communication runs when it is known to."""

    def __init__(self, spans: Iterator[tuple[int, int]], start: int) -> None:
        super().__init__(now=Clock.later(start).now)
        self._spans = spans

    def communicate(self, *_: int) -> tuple[int, int]:
        """Add the next known work."""
        start, end = next(self._spans)
        self.communication_ends.append(end)
        return start, end


@dataclass(frozen=True)
class JobLayout:
    """The steps of all ranks, their host times and GPU work, laid out in time.

    With `starts` [ns after the first rank], each rank runs one step from then on;
    otherwise `STEPS`, one after another. `world` is the number of ranks of the job if
    not all are here.
    """

    ranks: Sequence[RankSubject]
    host: HostTimes
    work: list[list[KernelTime]]
    """For each rank."""
    device: Device
    starts: tuple[int, ...] = ()
    world: int | None = None

    @property
    def steps(self) -> int:
        """How many steps are laid out."""
        return 1 if self.starts else STEPS

    @cached_property
    def plain(self) -> list[Timeline]:
        """The steps of each rank alone: what they do, not when."""
        return [self._laid(rank, Clock()) for rank in range(len(self.ranks))]

    def solved(self, slowness: float, time: Callable[[KernelTime], int]) -> Solved:
        """When all ranks run, with host times scaled by `slowness`."""
        courses = [Course.of(laid.clock.log, self.steps) for laid in self.plain]
        return solve(
            [course.slowed(slowness) for course in courses],
            [laid.calls for laid in self.plain],
            [[time(one) for one in works] for works in self.work],
            self.starts,
        )

    @cached_property
    def _expected(self) -> Solved:
        """When all ranks run at expected times."""
        return self.solved(1.0, lambda time: time.expected)

    @cached_property
    def timelines(self) -> list[Timeline]:
        """The steps of each rank, at the times at which all ranks run them."""
        starts = self.starts or [0] * len(self.ranks)
        spans = zip(self._expected.spans, starts, strict=True)
        return [
            self._laid(rank, _Known(iter(known), start))
            for rank, (known, start) in enumerate(spans)
        ]

    def _laid(self, rank: int, clock: Clock) -> Timeline:
        works = self.work[rank]
        timeline = Timeline(self.host, lambda n: works[n].expected, clock=clock)
        for number in range(self.steps):
            timeline.step(self.ranks[rank].root, number)
        return timeline

    def bounds(self, fast: float, slow: float) -> tuple[int, int, int]:
        """[ns] The last step with hosts and kernels fast, as expected, and slow."""
        return (
            self.solved(fast, lambda time: time.low).last_step_ns,
            self._expected.last_step_ns,
            self.solved(slow, lambda time: time.high).last_step_ns,
        )

    @property
    def stages(self) -> tuple[RankTimes, ...]:
        """The last step of each rank."""
        solved = self._expected
        found = []
        for rank, timeline, works, own in zip(
            self.ranks, self.timelines, self.work, solved.last_steps_ns, strict=True
        ):
            events = last_step(timeline.events, len(works))
            computing = busy_ns([e for e in events if not _sends(e)])
            idle = 1 - computing / max(solved.last_step_ns, 1)
            found.append(
                RankTimes(
                    *(rank.rank, own, busy_ns(events), computing, idle),
                    *(len(works), rank.memory),
                )
            )
        return tuple(found)

    @property
    def active_ns(self) -> int:
        """[ns] How long the busiest rank computes in the last step."""
        return max(stage.computing_ns for stage in self.stages)

    @property
    def texts(self) -> list[str]:
        """The steps of each rank as a trace."""
        count = self.world or len(self.ranks)
        gpus = min(self.device.per_node, count)
        return [
            trace_text(
                timeline.events, self.device.name, Machine(gpus, count, rank.rank)
            )
            for rank, timeline in zip(self.ranks, self.timelines, strict=True)
        ]


def _sends(event: dict[str, Any]) -> bool:
    """Whether an event on the GPU is communication."""
    return "Collective name" in event["args"]
