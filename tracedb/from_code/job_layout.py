"""Lay out the steps of all ranks of a job in time, each as a trace of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracedb.from_code.clock import Clock, Course
from tracedb.from_code.events import Machine, trace_text
from tracedb.from_code.joint import Solved, solve
from tracedb.from_code.layout import STEPS, busy_ns, last_step
from tracedb.from_code.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.job_run import RankRecording
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.pricing import Device, KernelTime


@dataclass(frozen=True)
class RankTimes:
    """One rank of a job that does different work, such as a stage of a pipeline.

    `computing_ns` is how long its GPU runs anything but communication in a step;
    `idle_share` is the rest of the step: bubbles, exposed messages, and gaps.
    """

    rank: int
    computing_ns: int
    idle_share: float
    kernel_count: int
    memory: Memory


class _Known(Clock):
    """A clock whose communication runs when it is known to."""

    def __init__(self, spans: Iterator[tuple[int, int]]) -> None:
        super().__init__()
        self._spans = spans

    def communicate(self, *_: int) -> tuple[int, int]:
        """Add the next known work."""
        start, end = next(self._spans)
        self.communication_ends.append(end)
        return start, end


@dataclass(frozen=True)
class JobLayout:
    """The steps of all ranks, their host times and GPU work, laid out in time."""

    ranks: list[RankRecording]
    host: HostTimes
    work: list[list[KernelTime]]
    """For each rank."""
    device: Device

    @cached_property
    def plain(self) -> list[Timeline]:
        """The steps of each rank alone: what they do, not when."""
        return [self._laid(rank, Clock()) for rank in range(len(self.ranks))]

    def solved(self, slowness: float, time: Callable[[KernelTime], int]) -> Solved:
        """When all ranks run, with host times scaled by `slowness`."""
        courses = [Course.of(laid.clock.log, STEPS) for laid in self.plain]
        return solve(
            [course.slowed(slowness) for course in courses],
            [laid.calls for laid in self.plain],
            [[time(one) for one in works] for works in self.work],
        )

    @cached_property
    def _expected(self) -> Solved:
        """When all ranks run at expected times."""
        return self.solved(1.0, lambda time: time.expected)

    @cached_property
    def timelines(self) -> list[Timeline]:
        """The steps of each rank, at the times at which all ranks run them."""
        return [
            self._laid(rank, _Known(iter(spans)))
            for rank, spans in enumerate(self._expected.spans)
        ]

    def _laid(self, rank: int, clock: Clock) -> Timeline:
        works = self.work[rank]
        timeline = Timeline(self.host, lambda n: works[n].expected, clock=clock)
        for number in range(STEPS):
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
        step_ns = max(self._expected.last_step_ns, 1)
        found = []
        for rank, timeline in zip(self.ranks, self.timelines, strict=True):
            count = len(self.work[rank.rank])
            computing = busy_ns(
                [e for e in last_step(timeline.events, count) if not _sends(e)]
            )
            idle = 1 - computing / step_ns
            found.append(RankTimes(rank.rank, computing, idle, count, rank.memory))
        return tuple(found)

    @property
    def active_ns(self) -> int:
        """[ns] How long the busiest rank computes in the last step."""
        return max(stage.computing_ns for stage in self.stages)

    @property
    def texts(self) -> list[str]:
        """The steps of each rank as a trace."""
        count = len(self.ranks)
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
