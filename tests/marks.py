"""Marks on the actions of a program: what the edits of a scenario do with each.

An edit selects single actions: an op by its name, which no other op has; GPU work and
calls by a query for their correlation. `tests/marked.py` changes the program alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from executed import CUDA

from tracedb.synthetic import (
    Annotation,
    Collective,
    Copy,
    DeviceSync,
    EventSync,
    Form,
    Gap,
    Launch,
    Memset,
    Op,
    Program,
    StreamSync,
    StreamWait,
    execute,
)
from tracedb.synthetic.program import STEP_PREFIX, Action

Work = Launch | Copy | Memset | Collective
Wait = StreamSync | DeviceSync | EventSync
FREE_STREAM = 99
OVERLAPS = 1_000
"""Streams of overlapped work are numbered from here on."""
TYPES = ("T2", "T3", "T5")
"""The host time of ops, except launches and waits."""
RECORDED = Form(sync_events=True)
"""A trace that says what waits are for."""
Fields = dict[str, Any]
"""The fields of an edit; `_` is its ordinal among all that were added."""


@dataclass(frozen=True)
class Insertion:
    """What an edit inserts next to an op or to GPU work."""

    ns: int
    is_after: bool
    edit: int
    host_ns: int | None = None
    """[ns] The time of its launch, if given."""


@dataclass
class Marks:
    """What a scenario does with an action."""

    set_ns: int | None = None
    factor: float = 1
    add_ns: int = 0
    removed: bool = False
    """Without its GPU work."""
    gone: bool = False
    """Without the op and everything in it."""
    merges: bool = False
    """Then the gaps around it become one."""
    bare: bool = False
    """Within a captured op: nothing but launches remains."""
    unsynced: bool = False
    to_stream: int | None = None
    until: str | None = None
    """Overlapped until an op of this name."""
    before: list[Insertion] = field(default_factory=list)
    after: list[Insertion] = field(default_factory=list)
    call_factor: float = 1
    host_factor: float = 1
    late: dict[str, tuple[float, int]] = field(default_factory=dict)
    joined: Fields | None = None
    """The edit that fuses it, or captures it as a graph."""

    @property
    def fused_ns(self) -> int | None:
        """[ns] The time given for fused work, as edited."""
        given_ns: int | None = (self.joined or {}).get("gpu_ns")
        if given_ns is None:
            return None
        return max(0, round(given_ns * self.factor) + self.add_ns)

    def stream_of(self, work: Work) -> int:
        """The stream that it runs on."""
        return work.stream if self.to_stream is None else self.to_stream

    def lasting(self, ns: int) -> int:
        """[ns] The edited time of GPU work."""
        known = ns if self.set_ns is None else self.set_ns
        return max(0, round(known * self.factor) + self.add_ns)


@dataclass
class Site:
    """An action that edits may select."""

    action: Action
    rank: int
    thread: int
    step: int | None
    ops: tuple[Op, ...]
    """The ops around it, outermost first."""

    def is_with(self, other: Site) -> bool:
        """Whether both are on one thread."""
        return (self.rank, self.thread) == (other.rank, other.thread)


Sites = list[Site]


def sites(program: Program) -> Sites:
    """All actions in order of the threads; each is an object of its own."""
    found: Sites = []

    def walk(body: Iterable[Action], around: Site) -> None:
        for action in body:
            site = replace(around, action=action)
            found.append(site)
            if isinstance(action, Op):
                walk(action.body, replace(site, ops=(*site.ops, action)))
            elif isinstance(action, Annotation):
                step = site.step
                if action.name.startswith(STEP_PREFIX):
                    step = int(action.name.removeprefix(STEP_PREFIX))
                walk(action.body, replace(site, step=step))

    for number, rank in enumerate(program.ranks):
        for of, thread in enumerate(rank.threads):
            walk(thread.body, Site(Gap(0), number, of, None, ()))
    return found


@dataclass
class Case:
    """A program, its executions, and how to select what it does."""

    name: str
    program: Program
    trait: str | None
    form: Form = RECORDED
    """How its traces are written."""

    def __post_init__(self) -> None:
        """Execute it."""
        self.traces = execute(self.program, CUDA)
        self.sites = sites(self.program)
        self.calls = {
            id(event.action): (rank, event.correlation)
            for rank, trace in enumerate(self.traces)
            for event in trace.truth.host_events
            if event.correlation is not None
        }
        self.sends = {
            id(of.action)
            for of in self.sites
            if isinstance(of.action, Collective)
            and of.action.is_eager
            and of.rank == of.action.ranks[0]
        }
        """Sends that do not wait for their receivers."""

    def awaiting(self, site: Site) -> Sites:
        """The calls that make a work's stream wait, behind the work before it."""
        assert isinstance(site.action, Work)
        found: Sites = []
        for of in self.sites:
            if (of.rank, of.thread) != (site.rank, site.thread):
                continue
            if of is site:
                return found
            if isinstance(of.action, Work) and of.action.stream == site.action.stream:
                found = []
            if (
                isinstance(of.action, StreamWait)
                and of.action.stream == site.action.stream
            ):
                found.append(of)
        return found

    def within(self, site: Site) -> Sites:
        """Everything in an op."""
        return [of for of in self.sites if any(op is site.action for op in of.ops)]

    def works(self, sites: Sites) -> str:
        """A query of the GPU work of launches."""
        return self._nodes("gpu_op", sites)

    def calls_of(self, sites: Sites) -> str:
        """A query of calls."""
        return self._nodes("call", sites)

    def _nodes(self, kind: str, sites: Sites) -> str:
        keys = ", ".join(
            f"('%{rank}.json', {correlation})"
            for rank, correlation in (self.calls[id(of.action)] for of in sites)
        )
        return (
            f"SELECT {kind}_id FROM staging.{kind} "
            "INNER JOIN staging.trace USING (trace_id) "
            f"INNER JOIN (VALUES {keys}) AS v (p, c) ON path LIKE p AND correlation = c"
        )


def names_of(sites: Sites) -> str:
    """A pattern for ops."""
    names = "|".join(
        str(re.escape(of.action.name)) for of in sites if isinstance(of.action, Op)
    )
    return f"/^({names})$/"


class Scenario:
    """Edits, and the marks that they leave on actions."""

    def __init__(self, case: Case, random: Random) -> None:
        """Start without edits."""
        self.case = case
        self.random = random
        self.marks: dict[int, Marks] = defaultdict(Marks)
        self.edits: list[Fields] = []
        self.kinds: list[str] = []
        self.warnings: set[str] = set()
        """What the answer says about it."""
        self.kept: list[object] = []
        """What stays alive with it: actions are known by their identity."""

    def add(self, kind: str, **fields: object) -> None:
        """Append an edit, with its ordinal."""
        self.edits.append(fields | {"_": self.ordinal})
        if kind not in self.kinds[-1:]:
            self.kinds.append(kind)

    def of(self, site: Site) -> Marks:
        """The marks of a site."""
        return self.marks[id(site.action)]

    @property
    def ordinal(self) -> int:
        """The ordinal of the next edit."""
        return len(self.edits) + 1

    # One method per kind of edit: targets, marks, edit.

    def gpu_time(self, targets: Sites) -> None:
        """Change the time of GPU work."""
        how: Fields
        deed = self.random.choice(("set", "factor", "factor", "add"))
        if deed == "set":
            how = {"action": "set", "set_ns": self.random.choice((0, 5_000, 200_000))}
        elif deed == "factor":
            how = {"factor": self.random.choice((0, 0.5, 3))}
        else:
            how = {"add_ns": self.random.choice((8_000, 90_000, -2_000))}
        for site in targets:
            marks = self.of(site)
            marks.set_ns = how.get("set_ns", marks.set_ns)
            marks.factor *= how.get("factor", 1)
            marks.add_ns += how.get("add_ns", 0)
        self.add(deed, target="gpu", sql=self.case.works(targets), **how)

    def gpu_gone(self, targets: Sites) -> None:
        """Remove GPU work, but not its launch."""
        for site in targets:
            self.of(site).removed = True
        self.add("no work", target="gpu", sql=self.case.works(targets), action="remove")

    def gpu_new(self, targets: Sites, place: str | None = None) -> None:
        """Insert GPU work."""
        host = None if place else self.random.choice((None, None, 9_000))
        place = place or self.random.choice(("before", "after"))
        ns = self.random.choice((6_000, 70_000))
        for site in targets:
            marks = self.of(site)
            beside = marks.before if place == "before" else marks.after
            beside.append(Insertion(ns, place == "after", self.ordinal, host))
        how: Fields = {"place": place, "gpu_ns": ns}
        if host is not None:
            how["host_ns"] = host
        self.add(
            f"new work {place}",
            target="gpu",
            sql=self.case.works(targets),
            action="insert",
            **how,
        )

    def moved(self, targets: Sites, to_stream: int | None = None) -> None:
        """Move GPU work."""
        to_stream = to_stream or FREE_STREAM + self.random.choice((0, 0, 1))
        for site in targets:
            self.of(site).to_stream = to_stream
        self.add(
            "moved",
            target="gpu",
            sql=self.case.works(targets),
            action="move",
            to_stream=to_stream,
        )

    def joined(self, targets: Sites, action: str | None = None) -> None:
        """Fuse work, or capture it as a graph."""
        how: Fields = {"action": action or self.random.choice(("fuse", "graph"))}
        if how["action"] == "graph":
            how |= {"host_ns": 8_000, "gap_ns": 600}
        elif self.random.random() < 1 / 4:
            how["gpu_ns"] = 25_000
        for site in targets:
            self.of(site).joined = how | {"edit": self.ordinal}
        self.add(how["action"], target="gpu", sql=self.case.works(targets), **how)

    def calls(self, targets: Sites) -> None:
        """Change the time of launch calls."""
        factor = self.random.choice((0, 0.5, 3))
        for site in targets:
            self.of(site).call_factor *= factor
        self.add(
            "launch call",
            target="host",
            type="T4",
            sql=self.case.calls_of(targets),
            factor=factor,
        )

    def late(self, targets: Sites) -> None:
        """Change delays of GPU work."""
        kind = self.random.choice(("launch", "stream"))
        factor, add_ns = self.random.choice(((0, 0), (2, 0), (1, 5_000)))
        for site in targets:
            old, more = self.of(site).late.get(kind, (1, 0))
            self.of(site).late[kind] = (old * factor, more + add_ns)
        self.add(
            f"delay {kind}",
            target="delay",
            type=kind,
            sql=self.case.works(targets),
            factor=factor,
            add_ns=add_ns,
        )

    def returned(self, targets: Sites) -> None:
        """Change delays of waits."""
        factor, add_ns = self.random.choice(((0, 0), (2, 0), (1, 5_000)))
        for site in targets:
            old, more = self.of(site).late.get("return", (1, 0))
            self.of(site).late["return"] = (old * factor, more + add_ns)
        self.add(
            "delay return",
            target="delay",
            type="return",
            sql=self.case.calls_of(targets),
            factor=factor,
            add_ns=add_ns,
        )

    def op_gone(self, targets: Sites, gaps: str | None = None) -> None:
        """Remove ops."""
        gaps = gaps or self.random.choice(("all", "all", "longest"))
        for site in targets:
            self.of(site).gone = True
            self.of(site).merges |= gaps == "longest"
        self.add(
            "no op", target="op", name=names_of(targets), action="remove", gaps=gaps
        )

    def op_time(self, targets: Sites) -> None:
        """Multiply all times in ops."""
        factor = self.random.choice((0, 0.5, 2))
        for site in targets:
            self.of(site).host_factor *= factor
            for inner in self.case.within(site):
                if isinstance(inner.action, Work):
                    self.of(inner).factor *= factor
                    self.of(inner).call_factor *= factor
        self.add("op times", target="op", name=names_of(targets), factor=factor)

    def op_graph(self, targets: Sites) -> None:
        """Capture consecutive ops."""
        how: Fields = {"action": "graph", "host_ns": 8_000, "gap_ns": 600}
        for site in targets:
            self.of(site).bare = True
            for inner in self.case.within(site):
                if isinstance(inner.action, Work):
                    self.of(inner).joined = how | {"edit": self.ordinal}
        self.add("op graph", target="op", name=names_of(targets), **how)

    def unordered(self, targets: Sites) -> None:
        """Remove waits of streams: those between the previous work and this."""
        for site in targets:
            for of in self.case.awaiting(site):
                self.of(of).unsynced = True
        self.add(
            "stream unsync",
            target="wait",
            type="stream",
            sql=self.case.works(targets),
        )

    def op_new(self, targets: Sites) -> None:
        """Insert ops."""
        place = self.random.choice(("before", "after"))
        ns = self.random.choice((4_000, 50_000))
        for site in targets:
            marks = self.of(site)
            beside = marks.before if place == "before" else marks.after
            beside.append(Insertion(ns, place == "after", self.ordinal))
        self.add(
            f"new op {place}",
            target="op",
            name=names_of(targets),
            action="insert",
            place=place,
            host_ns=ns,
        )

    def slower(self, targets: Sites) -> None:
        """Multiply the host time of ops except launches."""
        factor = self.random.choice((2, 3))
        for site in targets:
            self.of(site).host_factor *= factor
        for type_ in TYPES:
            self.add(
                "slower op",
                target="host",
                type=type_,
                op=names_of(targets),
                factor=factor,
            )

    def unsynced(self, targets: Sites) -> None:
        """Remove waits of the host."""
        for site in targets:
            self.of(site).unsynced = True
        self.add("unsync", target="wait", type="host", sql=self.case.calls_of(targets))

    def overlapped(self, targets: Sites, until: Site) -> None:
        """Overlap GPU work until an op."""
        pattern = names_of([until])
        for site in targets:
            self.of(site).until = pattern[1:-1]
            self.of(site).to_stream = OVERLAPS + self.ordinal
        self.add(
            "overlap",
            target="gpu",
            sql=self.case.works(targets),
            action="overlap",
            until=pattern,
        )
