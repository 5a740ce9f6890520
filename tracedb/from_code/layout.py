"""Lay out the steps of one rank in time, as a trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracedb.from_code.clock import Course
from tracedb.from_code.events import trace_text
from tracedb.from_code.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracedb.from_code.host_times import HostTimes
    from tracedb.from_code.pricing import Device, KernelTime
    from tracedb.from_code.program import Node

STEPS = 2
"""Number of steps in the trace: in the first, no earlier work is queued."""
_ON_GPU = ("kernel", "gpu_memcpy")


@dataclass(frozen=True)
class Layout:
    """A step, its host times and GPU work, laid out in time."""

    root: Node
    host: HostTimes
    work: list[KernelTime]
    device: Device
    is_captured: bool = False

    @cached_property
    def _timeline(self) -> Timeline:
        """`STEPS` steps, one after another, at expected times."""
        timeline = Timeline(
            self.host, lambda number: self.work[number].expected, self.is_captured
        )
        for number in range(STEPS):
            timeline.step(self.root, number)
        return timeline

    @property
    def course(self) -> Course:
        """The log of the host and the streams, by step."""
        return Course.of(self._timeline.clock.log, STEPS)

    @property
    def active_ns(self) -> int:
        """[ns] How long any stream is busy with work of the last step."""
        return busy_ns(last_step(self._timeline.events, len(self.work)))

    @property
    def texts(self) -> list[str]:
        """The steps as a trace."""
        machine = self.device.machine(self.root.walk())
        return [trace_text(self._timeline.events, self.device.name, machine)]


def last_step(events: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The events on the GPU of the last step, which has `count` of them."""
    found = [event for event in events if event["cat"] in _ON_GPU]
    return found[len(found) - count :]


def busy_ns(events: Sequence[dict[str, Any]]) -> int:
    """[ns] How long any of the events runs."""
    active = end = 0.0
    for event in sorted(events, key=lambda event: event["ts"]):
        done = event["ts"] + event["dur"]
        active += max(done - max(event["ts"], end), 0.0)
        end = max(end, done)
    return round(1000 * active)
