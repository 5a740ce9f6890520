"""The device: streams in order, events between them, collectives over the ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from .event_times import Cause, EventTime
from .program import Collective, EventRecord, ProgramError
from .truth import Edge, Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .event_times import Agenda
    from .program import Unseen
    from .truth import EdgeKind, HostEvent, Truth


class Lags(NamedTuple):
    """The delays of one kernel's start."""

    launch_ns: int
    queue_ns: int
    stream_wait_ns: int


@dataclass(slots=True, eq=False)
class Work:
    """A kernel, whose start and end may not be known yet."""

    kernel: Kernel
    truth: Truth
    start: EventTime = field(default_factory=EventTime)
    end: EventTime = field(default_factory=EventTime)

    @property
    def rank(self) -> int:
        """The rank that launched it."""
        return self.truth.rank

    def allow(self, kind: EdgeKind, delay_ns: int) -> Cause:
        """Return the end of this kernel as a cause of something later."""
        return Cause(kind, self.end, delay_ns, self.kernel.id, self.rank)


@dataclass(slots=True)
class Stream:
    """The last kernel of a stream, and what the next one must wait for.

    Streams execute in order, so of each stream only the latest kernel counts.
    """

    last: Work | None = None
    awaited: dict[int, Work] = field(default_factory=dict)

    def marked(self) -> tuple[Work, ...]:
        """Return the work after whose end all work so far on the stream is over."""
        last = () if self.last is None else (self.last,)
        return (*last, *self.awaited.values())


class Mark(NamedTuple):
    """The work that an event has marked, and the call that recorded it, if visible."""

    works: tuple[Work, ...]
    call: int | None


@dataclass(slots=True, eq=False)
class Rendezvous:
    """Collectives: the n-th of a group on one rank meets the n-th on the others."""

    world_size: int
    agenda: Agenda
    count: dict[tuple[int, str], int] = field(default_factory=dict)
    open: dict[tuple[str, int], list[Work]] = field(default_factory=dict)

    def join(self, work: Work, action: Collective) -> None:
        """Add the kernel of a rank; the last one lets them end together."""
        turn = self.count.get((work.rank, action.group), 0)
        self.count[work.rank, action.group] = turn + 1
        works = self.open.setdefault((action.group, turn), [])
        works.append(work)
        if len({work.kernel.name for work in works}) > 1:
            raise ProgramError(
                f"collective {turn} of group {action.group!r} is not {action.name!r} "
                "on all ranks; launch collectives in one order"
            )
        if _is_sent(work):
            self._end_after(work, [work], action.kernel_ns)
        if len(works) == (len(action.ranks) or self.world_size):
            self._meet(self.open.pop((action.group, turn)))

    def _meet(self, works: list[Work]) -> None:
        moving_ns = max(work.kernel.action.kernel_ns for work in works)
        for work in works:
            own_ns = cast("Collective", work.kernel.action).own_ns
            if not _is_sent(work):
                self._end_after(work, works, moving_ns if own_ns is None else own_ns)

    def _end_after(self, work: Work, works: list[Work], lasting_ns: int) -> None:
        causes = [
            Cause("collective", of.start, lasting_ns, of.kernel.id, of.rank)
            for of in works
        ]
        self.agenda.meet(causes, 0, partial(self._end, work, causes))

    def _end(self, work: Work, causes: list[Cause], ns: int) -> None:
        work.kernel.end_ns = ns
        others = [cause for cause in causes if cause.source != work.kernel.id]
        work.truth.edges.extend(edges(others, work.kernel.id, ns))
        self.agenda.fix(work.end, ns)


def _is_sent(work: Work) -> bool:
    """Whether it is a send that does not wait for its receiver."""
    action = cast("Collective", work.kernel.action)
    return action.is_eager and work.rank == action.ranks[0]


@dataclass(slots=True, eq=False)
class Device:
    """The device of one rank, or several."""

    truth: Truth
    agenda: Agenda
    rendezvous: Rendezvous
    streams: dict[int, Stream] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)

    def stream(self, number: int) -> Stream:
        """Return a stream, created on first use."""
        return self.streams.setdefault(number, Stream())

    def launch(
        self, kernel: Kernel, call: HostEvent, submitted_ns: int, lags: Lags
    ) -> Work:
        """Queue a kernel after its submission and everything that it must wait for."""
        work = Work(kernel, self.truth)
        causes = list(self._before(kernel.stream, call, submitted_ns, lags))
        self.streams[kernel.stream] = Stream(last=work)
        self.truth.kernels.append(kernel)
        self.agenda.meet(causes, 0, partial(self._start, work, causes))
        if isinstance(kernel.action, Collective):
            self.rendezvous.join(work, kernel.action)
        return work

    def _before(
        self, number: int, call: HostEvent, submitted_ns: int, lags: Lags
    ) -> Iterator[Cause]:
        """Yield what must have happened before the next kernel of a stream starts."""
        stream, submitted = self.stream(number), EventTime(submitted_ns)
        yield Cause("launch", submitted, lags.launch_ns, call.id, self.truth.rank)
        if (last := stream.last) is not None:
            yield last.allow("stream", lags.queue_ns)
        for work in stream.awaited.values():
            yield work.allow("stream_wait", lags.stream_wait_ns)

    def _start(self, work: Work, causes: list[Cause], ns: int) -> None:
        kernel = work.kernel
        kernel.start_ns = ns
        self.truth.edges.extend(edges(causes, kernel.id, ns))
        self.agenda.fix(work.start, ns)
        if kernel.kind != "collective":
            kernel.end_ns = ns + kernel.action.kernel_ns
            self.agenda.fix(work.end, kernel.end_ns)

    def everything(self, device: int | None) -> tuple[Work, ...]:
        """Return the last kernel of every stream of a device, or of the rank's own."""
        device = self.truth.device if device is None else device
        return tuple(
            stream.last
            for stream in self.streams.values()
            if stream.last is not None and stream.last.kernel.device == device
        )

    def record(self, event: str, number: int, call: int | None) -> None:
        """Mark the work on a stream so far."""
        self.marks[event] = Mark(self.stream(number).marked(), call)

    def hold(self, number: int, event: str) -> None:
        """Make later work on a stream wait for an event."""
        awaited = self.stream(number).awaited
        for work in self.marked(event):
            source = work.kernel.stream
            known = awaited.get(source)
            if source != number and (known is None or known.kernel.id < work.kernel.id):
                awaited[source] = work

    def order(self, action: Unseen) -> None:
        """Record an event, or make a stream wait for one, without a call."""
        call = action.call
        if isinstance(call, EventRecord):
            self.record(call.event, call.stream, None)
        else:
            self.hold(call.stream, call.event)

    def marked(self, event: str) -> tuple[Work, ...]:
        """Return the work that an event has marked; empty if never recorded."""
        return self.marks[event].works if event in self.marks else ()


def edges(causes: Iterable[Cause], target: int, ns: int) -> Iterator[Edge]:
    """Yield the edges from causes to a target that happens at `ns`."""
    for cause in causes:
        if cause.source is not None:
            ready_ns = cause.ready_ns
            yield Edge(
                kind=cause.kind,
                source=cause.source,
                target=target,
                source_rank=cause.source_rank,
                ready_ns=ready_ns,
                binding=ready_ns == ns,
            )
