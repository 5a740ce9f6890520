"""A graph of work with durations: when each part of a run begins, and after what.

Work begins when all its dependencies allow it, each a fixed time after the begin of
other work: at its end, a delay later, or, with a negative delay, before its end.
`timed` computes all times. `nodes` converts the work into a graph whose edges lead from
ends to begins: work is cut where something else depends on it, delays become nodes, and
work without duration is left out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    Dependency = tuple["Work", int]
    """Earlier work, and [ns] how long after its begin the later work may begin."""

_NEVER = -(2**62)


@dataclass(eq=False, slots=True)
class Work:
    """Uninterrupted work of a thread or a stream, or a point in time."""

    trace: int
    lasts_ns: int
    after: list[Dependency] = field(default_factory=list)
    meeting: Hashable = None
    """Works of one meeting, one per rank, begin when the last of them could begin."""
    is_kept: bool = False
    """Whether it has a node even without duration."""
    about: Any = None
    """A description, for writers."""
    at_ns: int = _NEVER
    """[ns] It does not begin before this time."""
    begin_ns: int = _NEVER
    """[ns] When it begins, set by `timed`; for a meeting, when that begins."""

    @property
    def end(self) -> Dependency:
        """A dependency on its end."""
        return self, self.lasts_ns

    @property
    def is_point(self) -> bool:
        """Whether its dependents depend on its dependencies instead."""
        return self.lasts_ns == 0 and not self.is_kept


class Node(NamedTuple):
    """A node of the graph whose edges lead from ends to begins."""

    number: int
    work: Work
    piece: int
    """Which piece of the work it is, from 0; -1 for a delay before it."""
    begin_ns: int
    end_ns: int
    after: tuple[int, ...]
    """The numbers of its predecessors, which are lower than its own."""


class _Place(NamedTuple):
    """An end of a piece of work to depend on (None: time 0), and a delay after it."""

    work: Work | None
    at_ns: int
    delay_ns: int

    @property
    def from_ns(self) -> int:
        """[ns] When the piece ends."""
        return _NEVER if self.work is None else self.work.begin_ns + self.at_ns

    @property
    def until_ns(self) -> int:
        """[ns] When the delay after it ends."""
        return self.delay_ns + (0 if self.work is None else self.from_ns)


def timed(works: list[Work]) -> list[Work]:
    """Set when each work begins; return the works in that order.

    Raises `QueryError` if works wait for each other in a cycle.
    """
    following: dict[Work, list[Work]] = defaultdict(list)
    meetings: dict[Hashable, list[Work]] = defaultdict(list)
    missing = {work: len(work.after) for work in works}
    for work in works:
        for source, _ in work.after:
            following[source].append(work)
        if work.meeting is not None:
            meetings[work.meeting].append(work)
    arrived: dict[Hashable, int] = defaultdict(int)
    ready = deque(work for work in works if not work.after)
    done = []
    while ready:
        work = ready.popleft()
        work.begin_ns = _ready_ns(work)
        together = [work] if work.meeting is None else meetings[work.meeting]
        arrived[work.meeting] += 1
        if work.meeting is not None and arrived[work.meeting] < len(together):
            continue
        latest = max(one.begin_ns for one in together)
        for one in together:
            one.begin_ns = latest
            done.append(one)
            for next_ in following[one]:
                missing[next_] -= 1
                if not missing[next_]:
                    ready.append(next_)
    if len(done) < len(works):
        raise QueryError(
            "the graph has a cycle, perhaps because collectives of ranks are matched "
            "wrongly; ingest the file of one rank alone"
        )
    return sorted(done, key=lambda work: work.begin_ns)


def _ready_ns(work: Work) -> int:
    times = (source.begin_ns + later for source, later in work.after)
    return max(work.at_ns, max(times, default=_NEVER))


def nodes(works: Iterable[Work], window: dict[int, tuple[int, int]]) -> Iterator[Node]:
    """The nodes of `timed` works, cut to the window [ns] of each trace."""
    ordered = list(works)
    places = {work: _places(work) for work in ordered if not work.is_point}
    cuts: dict[Work, set[int]] = defaultdict(set)
    for found in places.values():
        for source, at, _ in found:
            if source is not None and at < source.lasts_ns:
                cuts[source].add(at)
    return _Numbered(window, cuts).nodes(places)


def _places(work: Work) -> list[_Place]:
    """The ends that a work depends on, and how long after each it may begin.

    A dependency before a begin is replaced by what that begin depends on.
    """
    found: dict[Dependency, int] = {}
    seen = set()
    left = [*work.after]
    own_ns = work.at_ns
    while left:
        source, later = left.pop()
        if (source, later) in seen:
            continue
        seen.add((source, later))
        # Work that begins with a meeting depends on it, not on the rank's arrival.
        is_met = source.meeting is not None or source.lasts_ns == 0
        if not source.is_point and (later > 0 or (later == 0 and is_met)):
            at = min(later, source.lasts_ns)
            key = source, at
            found[key] = max(found.get(key, 0), later - at)
        else:
            left += [(first, before + later) for first, before in source.after]
            own_ns = max(own_ns, source.at_ns + later)
    places = [
        _Place(source, at, delay)
        for (source, at), delay in found.items()
        if source.trace == work.trace
    ]
    # Of other causes (on other ranks), only the time is known.
    begin = max(own_ns, _ready_ns(work))
    if begin > max((place.until_ns for place in places), default=_NEVER):
        places.append(_Place(None, 0, begin))
    return places


class _Numbered:
    """Numbers the nodes of works in order, and maps ends to nodes."""

    def __init__(
        self, window: dict[int, tuple[int, int]], cuts: dict[Work, set[int]]
    ) -> None:
        self._window = window
        self._cuts = cuts
        self._ends: dict[tuple[Work | None, int], int] = {}
        self._count = 0

    def nodes(self, places: dict[Work, list[_Place]]) -> Iterator[Node]:
        for work, found in places.items():
            low, _ = self._window[work.trace]
            if not self._is_within(work.begin_ns, work.begin_ns + work.lasts_ns, work):
                continue
            after: list[int] = []
            for place in found:
                end = self._ends.get((place.work, place.at_ns))
                last = () if end is None else (end,)
                if place.delay_ns > 0 and place.until_ns > low:
                    times = place.from_ns, place.until_ns
                    node = self._node(work, -1, times, last)
                    yield node
                    last = (node.number,)
                after += last
            yield from self._pieces(work, tuple(after))

    def _pieces(self, work: Work, after: tuple[int, ...]) -> Iterator[Node]:
        """The pieces of a work, cut where something else depends on it."""
        last = 0
        for piece, at in enumerate([*sorted(self._cuts[work]), work.lasts_ns]):
            begin, end = work.begin_ns + last, work.begin_ns + at
            if self._is_within(begin, end, work):
                node = self._node(work, piece, (begin, end), after)
                self._ends[work, at] = node.number
                after = (node.number,)
                yield node
            last = at

    def _is_within(self, begin: int, end: int, work: Work) -> bool:
        low, high = self._window[work.trace]
        if work.is_kept and begin == end:
            return low <= begin <= high
        return end > low and begin < high

    def _node(
        self, work: Work, piece: int, times: tuple[int, int], after: tuple[int, ...]
    ) -> Node:
        low, high = self._window[work.trace]
        begin, end = max(times[0], low), min(times[1], high)
        self._count += 1
        return Node(self._count, work, piece, begin, end, after)
