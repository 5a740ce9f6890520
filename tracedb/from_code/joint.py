"""The clocks of all ranks of a job together: who waits for whom, and until when.

A kernel of communication ends only after the others that it meets have started: a send
and its receive, or the ranks of a collective. It starts when its rank has got there and
its stream is free, so ranks advance one another. Each rank runs until its computing
needs the end of a kernel whose partner has not started yet; then the others run on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tracedb.errors import EstimateError
from tracedb.from_code.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.from_code.clock import Course
    from tracedb.from_code.collectives import Message

Key = tuple[object, ...]


class Call(NamedTuple):
    """What a kernel of communication does, and the line that calls it."""

    message: Message
    line: str

    @property
    def stream(self) -> Key:
        """What shares a stream: a group, or the two ranks of single messages.

        As in NCCL's process groups, where batches run on the stream of the group.
        """
        sent = self.message
        if sent.sender is None or sent.receiver is None or sent.batch is not None:
            return (sent.group,)
        return (sent.group, *sorted((sent.sender, sent.receiver)))

    @property
    def shown_stream(self) -> Key:
        """The stream on which it is shown: messages of a batch run side by side."""
        sent = self.message
        batched = () if sent.batch is None else (sent.sender, sent.receiver)
        return (*self.stream, *batched)

    @property
    def words(self) -> str:
        """The call in words."""
        sent = self.message
        if sent.is_between_two:
            return (
                f"{self.line}: {sent.kind} from rank {sent.sender} to {sent.receiver}"
            )
        return f"{self.line}: {sent.kind} of group {sent.group}"


@dataclass(eq=False)
class _Kernel:
    """A kernel on a stream; the parts of a batch are one."""

    gap: int
    batch: int | None
    ready: int = 0
    start: int | None = None
    parts: list[_Part] = field(default_factory=list)


@dataclass(eq=False)
class _Part:
    """A message of a kernel, or all of it, and the parts that it meets."""

    kernel: _Kernel
    call: Call
    duration: int
    meeting: list[_Part]
    size: int
    """How many parts meet."""
    end: int | None = None


@dataclass
class _Rank:
    """The clock of one rank, and its streams of communication."""

    clock: Clock = field(default_factory=Clock)
    parts: list[_Part] = field(default_factory=list)
    streams: dict[Key, deque[_Kernel]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    free: dict[Key, int] = field(default_factory=dict)
    """[ns] When a stream has done what is known to be done."""
    begin: int = 0
    """[ns] When it begins its first step."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """After each step: when host and computing are done, and the number of parts."""
    counts: dict[Key, int] = field(default_factory=lambda: defaultdict(int))


class Solved(NamedTuple):
    """[ns] For each rank, when its steps end and its communication runs.

    `marks` has for each rank when it begins, and when each of its steps ends.
    """

    marks: list[list[int]]
    spans: list[list[tuple[int, int]]]

    @property
    def ends(self) -> list[int]:
        """[ns] When all ranks have ended each step."""
        return [max(ends) for ends in zip(*(m[1:] for m in self.marks), strict=True)]

    @property
    def last_step_ns(self) -> int:
        """[ns] The last step, from end to end; the first begins with the first rank."""
        begin = min(marks[0] for marks in self.marks)
        before = [begin, *self.ends]
        return before[-1] - before[-2]

    @property
    def last_steps_ns(self) -> list[int]:
        """[ns] The same of each rank, from the end of its own step before."""
        return [marks[-1] - marks[-2] for marks in self.marks]


def solve(
    courses: Sequence[Course],
    calls: Sequence[Sequence[Call]],
    durations: Sequence[Sequence[int]],
    starts: Sequence[int] = (),
) -> Solved:
    """Run all ranks at once.

    For each rank: its log, the calls of its communication in all steps, the durations
    of the GPU work of a step, and how much later than the first it starts (default: all
    start together). Raises `EstimateError` where ranks wait for one another forever.
    """
    return _Job(courses, calls, durations, starts).solved()


class _Job:
    """Ranks that run, and the meetings of their parts."""

    def __init__(
        self,
        courses: Sequence[Course],
        calls: Sequence[Sequence[Call]],
        durations: Sequence[Sequence[int]],
        starts: Sequence[int],
    ) -> None:
        self._ranks = [
            _Rank(Clock.later(start)) for start in starts or [0] * len(courses)
        ]
        self._meetings: dict[Key, list[_Part]] = defaultdict(list)
        self._running = [
            self._run(rank, *given)
            for rank, given in enumerate(zip(courses, calls, durations, strict=True))
        ]

    def solved(self) -> Solved:
        """Run until all is done."""
        running = list(self._running)
        while True:
            going = [run for run in running if next(run, None) is not None]
            has_moved = len(going) < len(running)
            running = going
            while sum(self._settle(rank) for rank in self._ranks):
                has_moved = True
            if not has_moved:
                break
        self._refuse_endless(is_stopped=bool(running))
        return Solved(
            [_marks(rank) for rank in self._ranks],
            [_spans(rank.parts) for rank in self._ranks],
        )

    def _run(
        self,
        number: int,
        course: Course,
        calls: Sequence[Call],
        durations: Sequence[int],
    ) -> Iterator[bool]:
        """Run a rank's log; yield where it needs an end that is not known yet."""
        rank = self._ranks[number]
        clock, called = rank.clock, iter(calls)
        rank.begin = clock.now
        for step in course.steps:
            works = iter(durations)
            for entry in step:
                kind, first, gap, stream, _ = entry
                if kind == "communicate":
                    ready = max(clock.now, clock.streams[stream] + gap)
                    self._post(rank, next(called), ready, gap, next(works))
                elif kind == "work":
                    clock.work(next(works), gap, stream)
                elif kind == "join":
                    for part in rank.parts[len(rank.parts) - 1 - first :][:1]:
                        yield from _reach(clock, part, stream)
                elif kind == "drain":
                    clock.drain()
                    for part in rank.parts:
                        yield from _reach(clock, part, stream)
                else:
                    clock.repeat(entry)
            done = clock.done
            rank.marks.append((done, len(rank.parts)))

    def _post(
        self, rank: _Rank, call: Call, ready: int, gap: int, duration: int
    ) -> None:
        """Put a part on its stream, and take it to its meeting."""
        stream, batch = rank.streams[call.stream], call.message.batch
        if not (stream and batch is not None and stream[-1].batch == batch):
            stream.append(_Kernel(gap, batch))
        kernel = stream[-1]
        kernel.ready = max(kernel.ready, ready)
        key, size = _meeting(rank, call)
        meeting = self._meetings[key]
        part = _Part(kernel, call, duration, meeting, size)
        for one in (meeting, kernel.parts, rank.parts):
            one.append(part)

    def _settle(self, rank: _Rank) -> bool:
        """Start and end what can be; return whether anything was."""
        has_moved = False
        for key, stream in rank.streams.items():
            while stream:
                kernel = stream[0]
                if kernel.start is None:
                    free = rank.free.get(key)
                    behind = kernel.ready if free is None else free + kernel.gap
                    kernel.start = max(kernel.ready, behind)
                    has_moved = True
                has_moved |= _ended(kernel)
                if any(part.end is None for part in kernel.parts):
                    break
                rank.free[key] = max(part.end or 0 for part in kernel.parts)
                stream.popleft()
        return has_moved

    def _refuse_endless(self, *, is_stopped: bool) -> None:
        """Raise `EstimateError` where a part never ends."""
        for rank in self._ranks:
            for part in rank.parts:
                if part.end is None:
                    absent = part.size - len(part.meeting)
                    why = (
                        "the other rank never calls it"
                        if absent
                        else "ranks wait for one another forever"
                    )
                    raise EstimateError(f"{part.call.words}: {why}")
        if is_stopped:
            raise EstimateError("the ranks wait for one another forever")


def _reach(clock: Clock, part: _Part, stream: int) -> Iterator[bool]:
    """Let a stream wait for a part; yield while its end is not known."""
    while part.end is None:
        yield True
    clock.hold(stream, part.end)


def _ended(kernel: _Kernel) -> bool:
    """End the parts of a kernel whose partners have all started."""
    has_moved = False
    for part in kernel.parts:
        if part.end is not None or len(part.meeting) < part.size:
            continue
        starts = [other.kernel.start for other in part.meeting]
        known = [start for start in starts if start is not None]
        if len(known) == len(starts):
            part.end = max(known) + part.duration
            has_moved = True
    return has_moved


def _meeting(rank: _Rank, call: Call) -> tuple[Key, int]:
    """What a part meets: the other end of the n-th message, or the n-th collective."""
    sent = call.message
    if sent.is_between_two:
        way: Key = (sent.group, sent.sender, sent.receiver)
        counted, size = (*way, sent.kind), 2
    else:
        way = counted = (sent.group, sent.members)
        size = sent.ranks or 1
    rank.counts[counted] += 1
    return (*way, rank.counts[counted]), sent.simulated or size


def _marks(rank: _Rank) -> list[int]:
    """[ns] When a rank begins, and when its host and GPU have done each step."""
    ends = [
        max(done, *(part.end or 0 for part in rank.parts[:count]), 0)
        for done, count in rank.marks
    ]
    return [rank.begin, *ends]


def _spans(parts: list[_Part]) -> list[tuple[int, int]]:
    return [(part.kernel.start or 0, part.end or 0) for part in parts]
