"""Instants that may not be known yet, and what happens once they are.

A collective ends when its last rank has come, so the end of a kernel, and of all that
waits for it, can lie behind an instant which nobody knows at the time of the launch.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .truth import EdgeKind


@dataclass(slots=True, eq=False)
class EventTime:
    """An instant, known or not."""

    ns: int | None = None
    listeners: list[Meeting] = field(default_factory=list)

    @property
    def known_ns(self) -> int:
        """The instant, where it must be known."""
        if self.ns is None:
            raise RuntimeError("an instant was read before it was known")
        return self.ns


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why something cannot happen before `event_time` + `delay_ns`."""

    kind: EdgeKind
    event_time: EventTime
    delay_ns: int
    source: int | None
    source_rank: int

    @property
    def ready_ns(self) -> int:
        """The earliest time that this cause allows."""
        return self.event_time.known_ns + self.delay_ns


@dataclass(slots=True, eq=False)
class Meeting:
    """Something that happens when the last of its causes allows it."""

    causes: list[Cause]
    floor_ns: int
    then: Callable[[int], None]
    missing: int = 0

    @property
    def time_ns(self) -> int:
        """When it happens; all causes must be known."""
        return max([self.floor_ns, *(cause.ready_ns for cause in self.causes)])


@dataclass(slots=True)
class Agenda:
    """Fixes event times and lets happen what waited for them."""

    due: deque[Meeting] = field(default_factory=deque)
    busy: bool = False

    def fix(self, event_time: EventTime, ns: int) -> None:
        """Let an event time be known from now on."""
        event_time.ns = ns
        for meeting in event_time.listeners:
            meeting.missing -= 1
            if not meeting.missing:
                self.due.append(meeting)
        event_time.listeners.clear()
        self._work_off()

    def meet(
        self, causes: list[Cause], floor_ns: int, then: Callable[[int], None]
    ) -> Meeting:
        """Call `then` with the time that the causes lead to, once all are known."""
        meeting = Meeting(causes, floor_ns, then)
        for cause in causes:
            if cause.event_time.ns is None:
                cause.event_time.listeners.append(meeting)
                meeting.missing += 1
        if not meeting.missing:
            self.due.append(meeting)
            self._work_off()
        return meeting

    def _work_off(self) -> None:
        """Let all happen that is due; a loop, since chains of kernels are long."""
        if self.busy:
            return
        self.busy = True
        while self.due:
            meeting = self.due.popleft()
            meeting.then(meeting.time_ns)
        self.busy = False
