"""Programs whose GPU work waits for several streams, and some of these waits dropped.

`without` makes the program that remains after a removal: each call that makes a stream
wait is for the ends of exactly the kernels that it still has to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

from executed import CUDA, Case, case, rounded, warm_up

from tracedb.synthetic import (
    Annotation,
    Delays,
    EventRecord,
    Gap,
    Launch,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    Unseen,
    change,
    step,
)
from tracedb.synthetic.program import Action, KernelCall, seeded
from tracedb.synthetic.random_program import STREAMS


def join_program(seed: int, *, recorded: bool) -> Case:
    """One thread, whose ops launch on some streams and join these on another."""
    random = seeded("joins", seed)
    body: list[Action] = [step(0, *warm_up(STREAMS), Op("aten::each", _each(random)))]
    events = iter(f"event {number}" for number in range(10**6))
    for number in (1, 2):
        rounds = (_joining(random, events) for _ in range(random.randint(3, 6)))
        ops = (Op(f"aten::round_{random.randint(0, 3)}", tuple(of)) for of in rounds)
        body += [step(number, *(a for op in ops for a in (op, Gap(1_000)))), Gap(2_000)]
    if random.random() < 3 / 4:
        # Otherwise some streams are made to wait, and get no work any more.
        body += [step(3, Op("aten::each", _each(random)))]
    devices = {24: 1, 28: 1} if seed % 3 == 0 else {}
    program = rounded(Program((Rank((Thread("main", tuple(body)),), devices),)), CUDA)
    return case(f"joins {seed}", program, CUDA, recorded=recorded)


def _each(random: Random) -> tuple[Action, ...]:
    streams = random.sample(STREAMS, len(STREAMS))
    pairs = ((Launch(stream, 2_000), Gap(1_000)) for stream in streams)
    return tuple(action for pair in pairs for action in pair)


def _joining(random: Random, events: Iterator[str]) -> Iterator[Action]:
    """Work on up to three streams, and work on another that waits for all of them."""
    to, *others = random.sample(STREAMS, random.randint(2, 4))
    found = []
    for stream in others:
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            yield Gap(random.randint(500, 3_000))
            kernel = f"part_{stream}_{random.randint(0, 2)}"
            yield Launch(stream, random.randint(2_000, 150_000), kernel)
        event = next(events)
        found.append(event)
        yield EventRecord(event, stream)
        if random.random() < 1 / 4:
            # The event of a stream that waits for the event.
            between = random.choice([s for s in STREAMS if s != stream])
            yield StreamWait(between, event)
            if random.random() < 2 / 3:
                found.pop()
            found.append(next(events))
            yield EventRecord(found[-1], between)
    random.shuffle(found)
    for event in found:
        yield StreamWait(to, event)
    if random.random() < 5 / 6:
        yield Launch(to, random.randint(2_000, 60_000), "joined")
    if random.random() < 1 / 3:
        yield StreamSync(random.choice(STREAMS))
        yield Gap(1_000)


@dataclass(frozen=True, eq=False)
class Work:
    """GPU work, and the innermost op and the step that launched it."""

    number: int
    name: str
    stream: int
    op: str
    step: str


@dataclass(eq=False)
class Held:
    """A call that makes a stream wait for an event."""

    stream: int
    awaited: int
    """The event's stream."""
    direct: Work | None
    """The last work of that stream."""
    passed: tuple[Held, ...]
    """The calls that had made the event's stream wait, with no work since then."""
    by: Work | None = None
    """The work that waits: the next one on the stream."""
    is_removed: bool = False
    is_synced: bool = False
    """Whether the host waits for its stream before work follows there."""

    def marks(self) -> set[Work]:
        """All work that it waits for."""
        own = {self.direct} if self.direct else set()
        return own.union(*(of.marks() for of in self.passed if not of.is_removed))


Pairs = set[tuple[Work, Work]]
"""What waits for what."""
Mark = tuple[int, Work | None, tuple[Held, ...]]
"""What an event marks: its stream, the last work there, and that stream's waits."""
Chooses = Callable[[Work, Work], bool]
"""Whether an edit selects that the first waits for the second."""


@dataclass
class Waits:
    """All calls of a program that make streams wait, in order."""

    calls: list[Held] = field(default_factory=list)
    last: dict[int, Work] = field(default_factory=dict)
    held: dict[int, list[Held]] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    count: int = 0

    def read(self, body: tuple[Action, ...], op: str = "", of_step: str = "") -> None:
        """Read the actions of a thread, in their order."""
        for action in body:
            call = action.call if isinstance(action, Unseen) else action
            if isinstance(call, Op):
                self.read(call.body, call.name, of_step)
            elif isinstance(call, Annotation):
                self.read(call.body, op, call.name)
            elif isinstance(call, KernelCall):
                self._launch(call, op, of_step)
            elif isinstance(call, EventRecord):
                held = (*self.held.get(call.stream, ()),)
                self.marks[call.event] = call.stream, self.last.get(call.stream), held
            elif isinstance(call, StreamSync):
                for one in self.held.get(call.stream, ()):
                    one.is_synced = True
            elif isinstance(call, StreamWait):
                self.calls.append(Held(call.stream, *self.marks[call.event]))
                self.held.setdefault(call.stream, []).append(self.calls[-1])

    def _launch(self, action: KernelCall, op: str, of_step: str) -> None:
        stream = action.stream
        work = Work(self.count, action.kernel, stream, op, of_step)
        self.count += 1
        self.last[stream] = work
        for call in self.held.pop(stream, ()):
            call.by = work

    def pairs(self) -> Pairs:
        """What waits for what on another stream."""
        return {
            (call.by, work)
            for call in self.calls
            if call.by
            for work in call.marks()
            if work.stream != call.stream
        }

    def remove(self, chooses: Chooses) -> Pairs:
        """Remove waits; what is left to remove because it was only passed on."""
        every = self.pairs()
        chosen = {pair for pair in every if chooses(*pair)}
        kept = {waiting.stream for waiting, _ in every - chosen}
        touched = {waiting.stream for waiting, _ in every}
        direct = {(call.by, call.direct) for call in self.calls}
        for call in self.calls:
            if call.by:
                call.is_removed = (call.by, call.direct) in chosen
            else:
                # Nothing to select: with all waits of its stream, or of the trace.
                keeps = call.stream in kept if call.stream in touched else bool(kept)
                call.is_removed = bool(chosen) and not keeps
        return chosen - direct

    def left(self, call: Held, gone: Pairs) -> Iterator[Action]:
        """What a call still makes its stream wait for."""
        works = set() if call.is_removed else call.marks()
        for work in sorted(works, key=lambda work: work.number):
            if (call.by, work) not in gone:
                yield Unseen(StreamWait(call.stream, f"end of {work.number}"))

    def is_unclear(self, gone: Pairs) -> bool:
        """Whether such a removal is in the program."""
        return any(
            (call.is_synced and (call.by, work) in gone)
            for call in self.calls
            for work in call.marks()
        ) or any(
            one.is_removed != other.is_removed and one.awaited == other.awaited
            for call in self.calls
            for one, other in combinations(call.passed, 2)
        )


class UnclearError(Exception):
    """A removal of which no program is known, or not all is predicted.

    The host waits, too, for something that only the next work no longer waits for. Or a
    stream passes on two waits for events of one stream, of which one is removed
    (`graph.passed_call` has the last).
    """


def without(chooses: Chooses) -> change.Change:
    """Remove the waits that an edit selects; raises `UnclearError`."""

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        (rank,) = program.ranks
        (thread,) = rank.threads
        waits = Waits()
        waits.read(thread.body)
        gone = waits.remove(chooses)
        if waits.is_unclear(gone):
            raise UnclearError
        calls, numbers = iter(waits.calls), iter(range(waits.count))

        def rewired(body: tuple[Action, ...]) -> Iterator[Action]:
            for action in body:
                call = action.call if isinstance(action, Unseen) else action
                if isinstance(call, Op | Annotation):
                    yield replace(call, body=tuple(rewired(call.body)))
                elif isinstance(call, StreamWait | EventRecord):
                    if call is action:
                        yield OtherCall(call.call, delays.event_call_ns)
                    if isinstance(call, StreamWait):
                        yield from waits.left(next(calls), gone)
                else:
                    yield action
                    if isinstance(call, KernelCall):
                        end = f"end of {next(numbers)}"
                        yield Unseen(EventRecord(end, call.stream))

        changed = replace(thread, body=tuple(rewired(thread.body)))
        return Program((replace(rank, threads=(changed,)),)), delays

    return change_program
