"""Programs changed by marks (`tests/marks.py`): what a scenario's edits mean."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from executed import CUDA
from marks import Fields, Insertion, Marks, Scenario, Wait, Work

from tracedb.synthetic import (
    Annotation,
    Await,
    Collective,
    Copy,
    Delayed,
    EventRecord,
    EventSync,
    Gap,
    GraphLaunch,
    Launch,
    Memset,
    Notify,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamWait,
    Unseen,
    change,
)
from tracedb.synthetic.program import DATA_PREFIX, STEP_PREFIX, Action, DelayName

LATE: dict[str, DelayName] = {
    "launch": "launch_latency_ns",
    "stream": "queue_gap_ns",
    "stream_wait": "stream_wait_ns",
}
UNSYNCED = EventSync("of nothing, any more")
REMOVED, KEPT = "removed", "removed, but for the gaps around it"
"""What remains of removed ops is in a range of this name."""
MOVE = "move"
"""Events around moved work have names with it."""
Late = dict[DelayName, int]
Spare = Gap | OtherCall | EventRecord | StreamWait
"""What gaps between ops consist of."""
Lane = Literal["graph"] | tuple[str, int]


@dataclass
class Changed:
    """A thread's actions with their changes, and what each is."""

    scenario: Scenario
    rank: Rank
    number: int
    keys: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The original action of changed GPU work; for inserted work, its neighbor and the
    ordinal of the edit, which is negative before it."""
    joins: dict[int, Fields] = field(default_factory=dict)
    """The edits that join changed GPU work, with a given time as edited."""
    awaited: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Events that launches have to wait for: consumers of overlapped work."""
    kept: list[Action] = field(default_factory=list)
    """Actions stay alive, because they are known by their identity."""
    blocking: set[int] = field(default_factory=set)
    """Copies that block as recorded: they are never part of a graph."""
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    def body(
        self, body: Iterable[Action], factor: float, *, gone: bool
    ) -> Iterator[Action]:
        """The changed actions of a body."""
        graph: list[Action] = []
        for action in body:
            if isinstance(action, Op) and self.is_captured(action):
                graph = [action]
            elif graph and isinstance(action, Gap):
                # Gaps between captured ops go, too.
                graph.append(action)
                continue
            elif len(graph) > 1:
                yield from graph[1:]
                graph = []
            if isinstance(action, Op):
                yield from self.op(action, factor, gone=gone)
            elif isinstance(action, Annotation):
                inner = tuple(self.body(action.body, factor, gone=gone))
                yield replace(action, body=inner)
            elif gone:
                yield from self.order(action)
            else:
                yield from self.one(action, factor)
        yield from graph[1:]

    def is_captured(self, op: Op) -> bool:
        """Whether an op is part of a graph: it launches something that remains."""
        marks = self.scenario.marks
        (site,) = (of for of in self.scenario.case.sites if of.action is op)
        return marks[id(op)].bare and any(
            isinstance(of.action, Work)
            and not marks[id(of.action)].removed
            and not any(marks[id(outer)].gone for outer in of.ops)
            for of in self.scenario.case.within(site)
        )

    def op(self, op: Op, factor: float, *, gone: bool) -> Iterator[Action]:
        """An op with what is inserted next to it."""
        marks = self.scenario.marks[id(op)]
        for new in marks.before:
            yield Op("inserted", (Gap(new.ns),))
        gone = gone or marks.gone
        if marks.bare and not gone:
            yield from self.launches(op)
        else:
            inner = tuple(self.body(op.body, factor * marks.host_factor, gone=gone))
            name = REMOVED if marks.merges else KEPT
            yield Annotation(name, inner) if gone else replace(op, body=inner)
        for new in marks.after:
            yield Op("inserted", (Gap(new.ns),))

    def launches(self, op: Op) -> Iterator[Action]:
        """What is left of a captured op."""
        for action in op.body:
            if isinstance(action, Op) and not self.scenario.marks[id(action)].gone:
                yield from self.launches(action)
            elif isinstance(action, Op | Annotation):
                yield from self.body((action,), 0, gone=isinstance(action, Op))
            elif isinstance(action, Work):
                if not self.scenario.marks[id(action)].removed:
                    yield from self.one(action, 0)
            else:
                yield from self.order(action)

    def order(self, action: Action) -> Iterator[Action]:
        """What removed ops still do."""
        if isinstance(action, EventRecord | StreamWait):
            yield Unseen(action)
        elif isinstance(action, Unseen | Notify | Await):
            yield action

    def one(self, action: Action, factor: float) -> Iterator[Action]:
        """A changed action other than an op."""
        marks = self.scenario.marks[id(action)]
        if isinstance(action, Gap | OtherCall):
            yield replace(action, ns=round(action.ns * factor))
        elif isinstance(action, EventRecord | StreamWait) and factor < 1:
            yield Gap(0) if marks.unsynced else Unseen(action)
            yield OtherCall(action.call, round(factor * CUDA.event_call_ns))
        elif isinstance(action, EventRecord | StreamWait):
            if marks.unsynced:
                yield OtherCall(action.call, CUDA.event_call_ns)
            else:
                yield action
            yield Gap(round((factor - 1) * CUDA.event_call_ns))
        elif isinstance(action, Wait):
            late: Late = {"sync_return_ns": later(CUDA.sync_return_ns, marks, "return")}
            yield UNSYNCED if marks.unsynced else delayed(action, late)
        elif isinstance(action, Work):
            yield from self.work(action, marks)
        elif isinstance(action, GraphLaunch):
            for part in action.work:
                self.keys[id(part)] = (id(part), 0)
            yield action
        else:
            yield action

    def work(self, action: Work, marks: Marks) -> Iterator[Action]:
        """A changed launch, with waits if it moves to another stream."""
        if marks.removed:
            yield OtherCall(action.call, call_ns(marks))
            return
        stream, to_stream = action.stream, marks.stream_of(action)
        own = f"{MOVE} {self.number} {next(self.numbers)}"
        if to_stream != stream:
            yield Unseen(EventRecord(f"before {own}", stream))
            yield Unseen(StreamWait(to_stream, f"before {own}"))
        yield from self.with_new(action, marks, to_stream)
        if to_stream != stream:
            yield Unseen(EventRecord(f"after {own}", to_stream))
        if to_stream != stream and marks.until is None:
            yield Unseen(StreamWait(stream, f"after {own}"))
        elif marks.until is not None:
            self.consume(action, f"after {own}", marks.until)

    def with_new(self, action: Work, marks: Marks, stream: int) -> Iterator[Action]:
        """A launch with what is inserted next to it."""
        late = {of: later(getattr(CUDA, of), marks, kind) for kind, of in LATE.items()}
        late["launch_call_ns"] = call_ns(marks)
        for new in marks.before:
            yield self.new(action, stream, new, late)
        for event in self.awaited[id(action)]:
            yield Unseen(StreamWait(stream, event))
        back: Late = {"copy_return_ns": later(CUDA.copy_return_ns, marks, "return")}
        own_late = late | back if isinstance(action, Copy) else late
        yield delayed(self.launched(action, marks, stream), own_late)
        for new in marks.after:
            yield self.new(action, stream, new, late)

    def launched(self, action: Work, marks: Marks, stream: int) -> Work:
        """A changed launch."""
        lasting_ns = marks.lasting(action.kernel_ns)
        done: Work
        if id(action) in self.scenario.case.sends:
            done = replace(action, stream=stream, kernel_ns=lasting_ns)
        elif isinstance(action, Collective):
            done = replace(action, stream=stream, own_ns=lasting_ns)
        else:
            done = replace(action, stream=stream, kernel_ns=lasting_ns)
        if isinstance(done, Copy) and done.blocking:
            done = replace(done, blocking=not marks.unsynced)
            self.blocking.add(id(done))
        self.kept.append(done)
        self.keys[id(done)] = (id(action), 0)
        if marks.joined is not None:
            self.joins[id(done)] = marks.joined | {"fused_ns": marks.fused_ns}
        return done

    def consume(self, action: Work, event: str, until: str) -> None:
        """Let the consumer of overlapped work wait for it."""
        case = self.scenario.case
        here = next(of for of in case.sites if of.action is action)
        behind = case.sites[case.sites.index(here) + 1 :]
        own = {id(op) for op in here.ops}
        taking, streams = None, set()
        for site in behind:
            if not isinstance(site.action, Work) or not here.is_with(site):
                continue
            named = [
                op for op in site.ops if re.search(until, op.name) and id(op) not in own
            ]
            if taking is None and named:
                taking = named[0]
            stream = self.scenario.of(site).stream_of(site.action)
            if any(op is taking for op in named) and stream not in streams:
                streams.add(stream)
                self.awaited[id(site.action)].append(event)

    def new(self, action: Work, stream: int, how: Insertion, late: Late) -> Action:
        """Inserted work."""
        if isinstance(action, Collective):
            new: Work = Launch(stream, how.ns)
        else:
            new = replace(action, stream=stream, kernel_ns=how.ns)
        if isinstance(new, Copy):
            new = replace(new, blocking=False)
        self.keys[id(new)] = (id(action), how.edit if how.is_after else -how.edit)
        self.kept.append(new)
        ns = late["launch_call_ns"] if how.host_ns is None else how.host_ns
        return delayed(new, {**late, "launch_call_ns": ns})


def call_ns(marks: Marks) -> int:
    """[ns] The time of a launch as edited."""
    return round(CUDA.launch_call_ns * marks.call_factor)


def later(ns: int, marks: Marks, kind: str) -> int:
    """[ns] A delay as edited."""
    factor, add_ns = marks.late.get(kind, (1, 0))
    return max(round(ns * factor) + add_ns, 0)


def delayed(action: Work | Wait, late: Late) -> Action:
    """An action with delays, where they differ from the machine's."""
    own = {name: ns for name, ns in late.items() if ns != getattr(CUDA, name)}
    return Delayed(action, own) if own else action


def bare(action: Action) -> Action:
    """An action without its delays."""
    return action.action if isinstance(action, Delayed) else action


@dataclass
class Group:
    """Launches that an edit joins."""

    edit: Fields
    members: list[Action]

    @property
    def is_graph(self) -> bool:
        """Whether they are captured as a graph."""
        return bool(self.edit["action"] == "graph")


@dataclass
class Groups:
    """Which of a thread's changed launches are joined, as documented, by a loop."""

    of: Changed
    parted: int = 0
    lasts: dict[Lane, tuple[int, Group]] = field(default_factory=dict)
    streams: set[int] = field(default_factory=set)
    marked: dict[str, set[int]] = field(default_factory=dict)
    held: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    found: list[Group] = field(default_factory=list)
    recorded: dict[str, int] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    seen: dict[tuple[int, int], int] = field(default_factory=dict)

    def walk(self, body: Iterable[Action]) -> None:
        """Note groups."""
        for whole in body:
            action = bare(whole)
            call = action.call if isinstance(action, Unseen) else action
            if isinstance(call, Op | Annotation):
                self.parted += call.name.startswith((STEP_PREFIX, DATA_PREFIX))
                self.walk(call.body)
            elif isinstance(call, Work):
                self.launch(whole, call)
            elif isinstance(call, GraphLaunch):
                own = {of.stream for of in map(bare, call.work) if isinstance(of, Work)}
                self.lasts.pop("graph", None)
                for stream in own:
                    self.lasts.pop(("fuse", stream), None)
                self.streams |= own
            elif isinstance(call, Wait):
                self.parted += call is not UNSYNCED
            elif isinstance(call, EventRecord):
                self.recorded[call.event] = call.stream
                self.marked[call.event] = (
                    self.streams & {call.stream} | self.held[call.stream]
                )
            elif isinstance(call, StreamWait) and call.event.startswith(
                f"before {MOVE}"
            ):
                self.held[call.stream] |= self.moved(call)
            elif isinstance(call, StreamWait):
                other = self.marked.get(call.event, set()) - {call.stream}
                self.held[call.stream] |= other

    def moved(self, wait: StreamWait) -> set[int]:
        """The streams that moved work waits for, unless it follows other moved work."""
        source = self.recorded[wait.event]
        pair = (wait.stream, source)
        same = self.seen.get(pair) == self.counts[source]
        self.seen[pair] = self.counts[source]
        other = self.marked.get(wait.event, set()) - {wait.stream}
        return other - {source} if same else other

    def launch(self, whole: Action, work: Work) -> None:
        """Note a launch."""
        self.counts[work.stream] += 1
        edit = self.of.joins.get(id(work), {})
        waits = bool(self.held.pop(work.stream, set()))
        is_captured = edit.get("action") == "graph" and id(work) not in self.of.blocking
        is_fused = edit.get("action") == "fuse" and isinstance(work, Launch | Memset)
        self.join("graph", whole, edit if is_captured else None, parts=False)
        lane = "fuse", work.stream
        self.join(lane, whole, edit if is_fused else None, parts=waits)
        self.parted += isinstance(work, Copy) and work.blocking
        self.streams.add(work.stream)

    def join(
        self, lane: Lane, whole: Action, edit: Fields | None, *, parts: bool
    ) -> None:
        """Add a launch to the group of its lane, or begin another group."""
        parted, last = self.lasts.pop(lane, (-1, Group({}, [])))
        if edit is None:
            return
        if parted != self.parted or parts or last.edit["edit"] != edit["edit"]:
            last = Group(edit, [])
            self.found.append(last)
        last.members.append(whole)
        self.lasts[lane] = self.parted, last


@dataclass
class Joining:
    """Joins the launches of a thread: each group where its first one is."""

    of: Changed
    groups: dict[int, Group]
    """The group of each launch that belongs to one."""
    graphs: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """The work of graphs, with its order, by the first one."""
    first: int | None = None
    """The first work of the graph whose launches are being passed."""

    def collect(self, actions: Iterable[Action]) -> None:
        """Note what graphs consist of."""
        for action in actions:
            group = self.groups.get(id(action))
            if isinstance(action, Op | Annotation):
                self.collect(action.body)
            elif group is not None and group.is_graph:
                self.enter(action, group)
                self.graphs[id(group.members[0])].append(self.part(action, group))
            elif self.first is not None and isinstance(
                action, EventRecord | StreamWait
            ):
                self.graphs[self.first].append(Unseen(action))
            elif self.first is not None and isinstance(action, Unseen):
                self.graphs[self.first].append(action)

    def enter(self, action: Action, group: Group) -> None:
        """Note whether the graph goes on."""
        is_last = action is group.members[-1]
        self.first = None if is_last else id(group.members[0])

    def part(self, action: Action, group: Group) -> Action:
        """Work of a graph: behind other work of it, its delay is that of the gap."""
        work = bare(action)
        assert isinstance(work, Work)
        known = self.graphs[id(group.members[0])]
        streams = [of.stream for of in map(bare, known) if isinstance(of, Work)]
        if not isinstance(action, Delayed) or work.stream not in streams:
            return action
        marks = self.of.scenario.marks[self.of.keys[id(work)][0]]
        gap_ns = later(group.edit["gap_ns"], marks, "stream")
        return Delayed(work, {**action.delays, "queue_gap_ns": gap_ns})

    def joined(self, actions: Iterable[Action]) -> Iterator[Action]:
        """The actions, with groups for launches."""
        for action in actions:
            group = self.groups.get(id(action))
            if isinstance(action, Op | Annotation):
                yield replace(action, body=tuple(self.joined(action.body)))
            elif group is not None:
                if group.is_graph:
                    self.enter(action, group)
                if action is group.members[0]:
                    yield self.whole(action, group)
            elif self.first is None:
                yield action
            elif isinstance(action, EventRecord | StreamWait):
                yield OtherCall(action.call, CUDA.event_call_ns)
            elif not isinstance(action, Unseen):
                yield action

    def whole(self, action: Action, group: Group) -> Action:
        """The launch of a group."""
        late = action.delays if isinstance(action, Delayed) else {}
        if group.is_graph:
            share = (
                late.get("launch_call_ns", CUDA.launch_call_ns) / CUDA.launch_call_ns
            )
            ns = round(group.edit["host_ns"] * share)
            return GraphLaunch(tuple(self.graphs[id(action)]), ns, group.edit["gap_ns"])
        works = [of for of in map(bare, group.members) if isinstance(of, Work)]
        ns = group.edit["fused_ns"]
        if ns is None:
            ns = sum(work.kernel_ns for work in works)
        new = replace(works[0], kernel_ns=ns)
        self.of.keys[id(new)] = self.of.keys[id(works[0])]
        self.of.kept.append(new)
        return Delayed(new, late) if late else new


def with_groups(of: Changed, body: tuple[Action, ...]) -> tuple[Action, ...]:
    """Fuse or capture groups of launches."""
    groups = Groups(of)
    groups.walk(body)
    found = [group for group in groups.found if len(group.members) > 1]
    joining = Joining(of, {id(a): group for group in found for a in group.members})
    joining.collect(body)
    joining.first = None
    return tuple(joining.joined(body))


def changed(scenario: Scenario) -> tuple[Program, dict[int, tuple[int, int]]]:
    """The program as edited, and the original of each of its works."""
    ranks = []
    keys: dict[int, tuple[int, int]] = {}
    for rank in scenario.case.program.ranks:
        threads = []
        for number, thread in enumerate(rank.threads):
            of = Changed(scenario, rank, number)
            body = tuple(of.body(thread.body, 1, gone=False))
            body = with_groups(of, merged(body))
            scenario.kept.append(of)
            keys |= of.keys
            threads.append(replace(thread, body=body))
        devices = {**rank.devices}
        ranks.append(Rank(tuple(threads), devices))
    return Meeting(scenario, keys).program(Program(tuple(ranks))), keys


@dataclass
class Meeting:
    """Collectives of a changed job: the parts that remain meet as they did before."""

    scenario: Scenario
    keys: dict[int, tuple[int, int]]
    groups: dict[int, str] = field(default_factory=dict)
    """A group for each collective, by its parts as recorded."""
    members: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The ranks whose parts remain."""

    def __post_init__(self) -> None:
        """Number the collectives of each group."""
        for trace in self.scenario.case.traces:
            turns: Counter[str] = Counter()
            for kernel in sorted(trace.truth.kernels, key=lambda kernel: kernel.id):
                if isinstance(kernel.action, Collective):
                    group = kernel.action.group
                    self.groups[id(kernel.action)] = f"{group} {turns[group]}"
                    turns[group] += 1

    def program(self, program: Program) -> Program:
        """The program with a group of its own for each collective."""
        for number, rank in enumerate(program.ranks):
            for thread in rank.threads:
                self.collect(number, thread.body)
        return change.each_action(program, self.of)

    def collect(self, rank: int, body: Iterable[Action]) -> None:
        """Note what remains on a rank."""
        for action in map(bare, body):
            if isinstance(action, Op | Annotation):
                self.collect(rank, action.body)
            elif isinstance(action, GraphLaunch):
                self.collect(rank, action.work)
            elif isinstance(action, Collective):
                self.members[self.groups[self.keys[id(action)][0]]].add(rank)

    def of(self, action: Action) -> Action:
        """An action, whose collectives are apart."""
        if isinstance(action, GraphLaunch):
            work: Any = tuple(self.of(part) for part in action.work)
            return replace(action, work=work)
        whole = bare(action)
        if not isinstance(whole, Collective):
            return action
        key = self.keys[id(whole)]
        group = self.groups[key[0]]
        members = whole.ranks or sorted(self.members[group])
        ranks = tuple(rank for rank in members if rank in self.members[group])
        # A receive whose send is removed is the only part, but sends nothing.
        is_eager = whole.is_eager and ranks[0] == whole.ranks[0]
        new = replace(whole, group=group, ranks=ranks, is_eager=is_eager)
        self.keys[id(new)] = key
        self.scenario.kept.append(new)
        return replace(action, action=new) if isinstance(action, Delayed) else new


def spare_ns(spare: Spare) -> int:
    """[ns] The time of a gap, or of a call in it."""
    return spare.ns if isinstance(spare, Gap | OtherCall) else CUDA.event_call_ns


@dataclass
class Gaps:
    """The gaps of a thread: lists of runs, which removed ops divide."""

    runs: list[list[list[Spare]]] = field(default_factory=lambda: [[[]]])
    begins: bool = False
    """Whether the step has had nothing but gaps so far."""

    def walk(self, actions: Iterable[Action]) -> None:
        """Note gaps."""
        for action in actions:
            if isinstance(action, Spare):
                self.runs[-1][-1].append(action)
            elif not isinstance(action, Unseen):
                self.other(action)

    def other(self, action: Action) -> None:
        """Note what is between gaps."""
        loads = isinstance(action, Annotation) and action.name.startswith(DATA_PREFIX)
        if self.begins and not loads:
            # What is before the first op of a step is not between ops.
            self.part()
            self.begins = False
        if isinstance(action, Annotation) and action.name == REMOVED:
            self.runs[-1].append([])
        elif isinstance(action, Annotation):
            self.enter(action)
        else:
            self.part()

    def enter(self, range_: Annotation) -> None:
        """Note the gaps in a range; starts of steps, and loading, keep them apart."""
        if range_.name.startswith((STEP_PREFIX, DATA_PREFIX)):
            self.part()
            self.begins |= range_.name.startswith(STEP_PREFIX)
            self.walk(range_.body)
            if range_.name.startswith(DATA_PREFIX):
                self.part()
        elif range_.name == KEPT:
            self.part()
        else:
            self.walk(range_.body)

    def part(self) -> None:
        """Begin another run."""
        self.runs.append([[]])

    def dropped(self) -> set[int]:
        """The gaps of each run other than the longest."""
        found = set()
        for run in self.runs:
            longest = max(run, key=lambda of: sum(map(spare_ns, of)), default=[])
            found |= {id(gap) for of in run for gap in of if of is not longest}
        return found


def merged(body: tuple[Action, ...]) -> tuple[Action, ...]:
    """The body with one gap where removed ops had several around them."""
    gaps = Gaps()
    gaps.walk(body)
    dropped = gaps.dropped()

    def kept(actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            if isinstance(action, Annotation):
                yield replace(action, body=tuple(kept(action.body)))
            elif id(action) not in dropped:
                yield action
            elif isinstance(action, EventRecord | StreamWait):
                yield Unseen(action)

    return tuple(kept(body))
