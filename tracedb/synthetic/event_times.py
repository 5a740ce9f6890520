"""Event times that may not be known yet, and callbacks for when they are.

A collective ends after its last rank has arrived, so the end of a kernel, and of
everything that waits for it, may depend on times that are unknown at its launch.
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
    """A point in time that may be unknown yet."""

    ns: int | None = None
    listeners: list[Meeting] = field(default_factory=list)

    @property
    def known_ns(self) -> int:
        """[ns] The time, which must be known."""
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
        """[ns] The earliest time that this cause allows."""
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
    """Fixes event times, and runs callbacks that waited for them."""

    due: deque[Meeting] = field(default_factory=deque)
    busy: bool = False

    def fix(self, event_time: EventTime, ns: int) -> None:
        """Set an event time."""
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
        """Call `then` with the resulting time once all causes are known."""
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
        """Run all due callbacks in a loop, because recursion would be too deep."""
        if self.busy:
            return
        self.busy = True
        while self.due:
            meeting = self.due.popleft()
            meeting.then(meeting.time_ns)
        self.busy = False
