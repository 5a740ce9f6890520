"""Partition the time of every host thread in each step, to the nanosecond.

Inside a top-level op: T2 before its first launch, T4 the launches, T5 between them (or
the whole op, if it has none), T3 after the last; waits are cut out of what encloses
them. Between top-level ops and calls outside ops: T1, except for waits for threads.
Before the first and after the last top-level event of a step: idle, except for joins.
While a batch is fetched, everything except launches and waits for the device is a wait
for data. Calls that neither launch nor wait count as part of their surroundings.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from .program import DeviceSync, EventSync, StreamSync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .truth import HostEvent, Step, ThreadWait, Truth

OverheadType = Literal[
    "T1",
    "T2",
    "T3",
    "T4",
    "T5",
    "wait_stream",
    "wait_device",
    "wait_event",
    "wait_copy",
    "wait_thread",
    "wait_data",
    "idle",
]
OVERHEAD_TYPES: tuple[OverheadType, ...] = get_args(OverheadType)
_HOST_TYPES = {"T2", "T3", "T5", "wait_thread"}
"""Types that become a wait for data while a batch is fetched."""

_WAIT_TYPE: dict[type, OverheadType] = {
    StreamSync: "wait_stream",
    DeviceSync: "wait_device",
    EventSync: "wait_event",
}


@dataclass(frozen=True, slots=True)
class Interval:
    """A part of a step on one thread, of one type."""

    step: int
    thread: int
    type: OverheadType
    start_ns: int
    end_ns: int


class _Part(NamedTuple):
    type: OverheadType
    start_ns: int
    end_ns: int


def partition(truth: Truth) -> list[Interval]:
    """Return the intervals of every thread in every step, which tile the step."""
    return [
        Interval(step.number, thread, *part)
        for thread in sorted({event.thread for event in truth.host_events})
        for step, parts in _Timeline(truth, thread).by_step()
        for part in parts
        if part.start_ns < part.end_ns
    ]


class _Timeline:
    """One thread: its top-level events, and the waits that cover gaps between them."""

    def __init__(self, truth: Truth, thread: int) -> None:
        self.steps = truth.steps
        self.events = [event for event in truth.host_events if event.thread == thread]
        self.waits = [wait for wait in truth.thread_waits if wait.thread == thread]
        self.top_op = _top_ops(self.events)
        self.active = list(self._active())
        self.joins = [_waiting(wait) for wait in self.waits if wait.kind == "join"]
        self.forks = [_waiting(wait) for wait in self.waits if wait.kind == "fork"]
        self.data = [
            _Part("wait_data", event.start_ns, event.end_ns)
            for event in self.events
            if event.loads_data
        ]

    def _active(self) -> Iterator[_Part]:
        """Yield the parts of top-level ops, and of launches and waits outside ops."""
        marks = self._marks()
        for event in self.events:
            top = self.top_op[event.id]
            if event.kind == "op" and top == event.id:
                yield from _op_parts(event, sorted(marks[top], key=_start))
            elif event.kind in {"launch", "wait"} and top is None:
                yield from _call_parts(event)

    def _marks(self) -> dict[int | None, list[HostEvent | ThreadWait]]:
        """Return the launches and waits of each top-level op."""
        marks: dict[int | None, list[HostEvent | ThreadWait]] = defaultdict(list)
        for event in self.events:
            if event.kind in {"launch", "wait"}:
                marks[self.top_op[event.id]].append(event)
        for wait in self.waits:
            if wait.parent is not None:
                marks[self.top_op[wait.parent]].append(wait)
        return marks

    def by_step(self) -> Iterator[tuple[Step, list[_Part]]]:
        """Yield the parts of each step."""
        ends = [part.end_ns for part in self.active]
        for step in self.steps:
            active = list(self._within(step, bisect_right(ends, step.start_ns)))
            yield step, list(self._tile(step, active))

    def _within(self, step: Step, first: int) -> Iterator[_Part]:
        """Yield the parts of top-level events, from `first` on, in the step."""
        for index in range(first, len(self.active)):
            part = self.active[index]
            if part.start_ns >= step.end_ns:
                return
            start_ns = max(part.start_ns, step.start_ns)
            yield _Part(part.type, start_ns, min(part.end_ns, step.end_ns))

    def _tile(self, step: Step, active: list[_Part]) -> Iterator[_Part]:
        """Fill the gaps between top-level events."""
        begin = _Part("idle", step.start_ns, step.start_ns)
        end = _Part("idle", step.end_ns, step.end_ns)
        data = _touching(self.data, step)
        idle_cover = data + _touching(self.joins, step)
        cover = data + _touching(self.joins + self.forks, step)
        for left, right in pairwise([begin, *active, end]):
            if left is begin or right is end:
                yield from _gap("idle", left.end_ns, right.start_ns, idle_cover)
            else:
                yield from _gap("T1", left.end_ns, right.start_ns, cover)
            if right.type in _HOST_TYPES:
                yield from _gap(right.type, right.start_ns, right.end_ns, data)
            else:
                yield right


_start = attrgetter("start_ns")


def _top_ops(events: list[HostEvent]) -> dict[int, int | None]:
    """Return the top-level op of each event, in order of start."""
    top: dict[int, int | None] = {}
    for event in events:
        above = None if event.parent is None else top[event.parent]
        top[event.id] = event.id if above is None and event.kind == "op" else above
    return top


def _op_parts(op: HostEvent, marks: list[HostEvent | ThreadWait]) -> Iterator[_Part]:
    """Yield the parts of a top-level op."""
    launches = sum(mark.kind == "launch" for mark in marks)
    seen, now_ns = 0, op.start_ns
    for mark in marks:
        yield _Part(_inside(seen, launches), now_ns, mark.start_ns)
        yield from _call_parts(mark)
        seen += mark.kind == "launch"
        now_ns = mark.end_ns
    yield _Part(_inside(seen, launches), now_ns, op.end_ns)


def _inside(seen: int, launches: int) -> OverheadType:
    """Return the type of host time in an op after some of its launches."""
    if launches and seen == 0:
        return "T2"
    return "T3" if launches and seen == launches else "T5"


def _call_parts(call: HostEvent | ThreadWait) -> Iterator[_Part]:
    """Yield the parts of a launch or wait."""
    if call.kind == "fork" or call.kind == "join":  # noqa: PLR1714 - narrows the type
        yield _Part("wait_thread", call.start_ns, call.end_ns)
    elif call.kind == "wait":
        yield _Part(_WAIT_TYPE[type(call.action)], call.start_ns, call.end_ns)
    else:
        launched_ns = (
            call.end_ns if call.blocked_from_ns is None else call.blocked_from_ns
        )
        yield _Part("T4", call.start_ns, launched_ns)
        yield _Part("wait_copy", launched_ns, call.end_ns)


def _waiting(wait: ThreadWait) -> _Part:
    return _Part("wait_thread", wait.start_ns, wait.end_ns)


def _touching(cover: list[_Part], step: Step) -> list[_Part]:
    return [
        part
        for part in cover
        if part.start_ns < step.end_ns and part.end_ns > step.start_ns
    ]


def _gap(
    kind: OverheadType, start_ns: int, end_ns: int, cover: list[_Part]
) -> Iterator[_Part]:
    """Yield a gap, where it is covered under the type of the first of its covers."""
    cuts = {start_ns, end_ns}
    for part in cover:
        cuts |= {ns for ns in part[1:] if start_ns < ns < end_ns}
    for left, right in pairwise(sorted(cuts)):
        types = [
            part.type
            for part in cover
            if part.start_ns <= left and right <= part.end_ns
        ]
        yield _Part(types[0] if types else kind, left, right)
