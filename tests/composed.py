"""Random scenarios of several edits, each with the equivalent change of a program.

A part of a scenario is one or more edits and the change of the program. The changes are
applied in a fixed order (`Part.order`), while edits have none: first times of existing
actions, then removals, insertions and moves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeGuard

from tracedb.synthetic import (
    Annotation,
    Collective,
    Copy,
    Delayed,
    Delays,
    DeviceSync,
    EventRecord,
    EventSync,
    Gap,
    GraphLaunch,
    Launch,
    Memset,
    Op,
    OtherCall,
    Program,
    Rank,
    StreamSync,
    StreamWait,
    Thread,
    Unseen,
    change,
)
from tracedb.synthetic.program import STEP_PREFIX, Action, DelayName

FREE_STREAM = 99
Work = Launch | Copy | Memset | Collective
KINDS: dict[str, type[Work]] = {
    "kernel": Launch,
    "memcpy": Copy,
    "memset": Memset,
    "collective": Collective,
}
TYPES = ("T1", "T2", "T3", "T5", "idle", "wait_data")
"""Types of host time, except calls that launch."""
OP_TYPES = ("T2", "T3", "T5")
"""Those within ops."""
OUTER = r"^aten::(linear|matmul)$"
OTHERS = r"^aten::(softmax|item|mul|addmm|bmm)$"
OPTIMIZER = "Optimizer.step*"
Edit = dict[str, Any]


def is_work(action: Action, kind: str) -> TypeGuard[Work]:
    """Whether an action launches GPU work of a kind."""
    return isinstance(action, KINDS[kind])


@dataclass(frozen=True)
class Place:
    """The position of an action in a program."""

    rank: int
    thread: str
    devices: tuple[tuple[int, int], ...]
    scopes: tuple[Op | Annotation, ...] = ()

    @property
    def step(self) -> int | None:
        """The step that contains it, on the thread of the step."""
        marks = [s.name for s in self.scopes if s.name.startswith(STEP_PREFIX)]
        return int(marks[0].removeprefix(STEP_PREFIX)) if marks else None

    def is_in(self, kind: type[Op | Annotation], names: str) -> bool:
        """Whether it is within an op or a range of a name."""
        return any(
            isinstance(s, kind) and re.search(names, s.name) for s in self.scopes
        )

    def device(self, stream: int) -> int:
        """The device of a stream."""
        return dict(self.devices).get(stream, self.rank)


Rewrite = Callable[[Action, Place, Delays], tuple[Action, ...]]


def rewritten(rewrite: Rewrite) -> change.Change:
    """Replace each action by any number of actions; containers after their contents."""

    def of_body(
        body: tuple[Action, ...], place: Place, delays: Delays
    ) -> Iterator[Action]:
        for action in body:
            if isinstance(action, Op | Annotation):
                inside = replace(place, scopes=(*place.scopes, action))
                inner = tuple(of_body(action.body, inside, delays))
                yield from rewrite(replace(action, body=inner), place, delays)
            elif isinstance(action, GraphLaunch):
                yield _graph(action, lambda part: rewrite(part, place, delays))
            else:
                yield from rewrite(action, place, delays)

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        ranks = []
        for number, rank in enumerate(program.ranks):
            devices = tuple(rank.devices.items())
            threads = []
            for thread in rank.threads:
                place = Place(number, thread.name, devices)
                body = tuple(of_body(thread.body, place, delays))
                threads.append(replace(thread, body=body))
            ranks.append(Rank(tuple(threads), rank.devices))
        return Program(tuple(ranks)), delays

    return change_program


def _graph(
    graph: GraphLaunch, rewrite: Callable[[Action], tuple[Action, ...]]
) -> GraphLaunch:
    """A recorded graph with each of its GPU ops replaced by any number of them."""
    new = [of for action in graph.work for of in rewrite(action)]
    kept = [
        of for of in new if isinstance(of, Launch | Copy | Memset | Unseen | Delayed)
    ]
    return replace(graph, work=tuple(kept))


@dataclass(frozen=True)
class Where:
    """A selection of actions: the fields of an edit, and the test for an action."""

    fields: Edit = field(default_factory=dict)
    holds: Callable[[Action, Place], bool] = lambda _, __: True


EVERYWHERE = Where()


def where(random: Random, *, of_gpu: bool, traits: frozenset[str]) -> Where:
    """A random selection."""
    step = random.randint(1, 2)
    found = [
        EVERYWHERE,
        EVERYWHERE,
        Where(
            {"annotation": OPTIMIZER}, lambda _, p: p.is_in(Annotation, "^Optimizer")
        ),
        Where({"op": f"/{OUTER}/"}, lambda _, p: p.is_in(Op, OUTER)),
        Where({"op": f"/{OTHERS}/"}, lambda _, p: p.is_in(Op, OTHERS)),
    ]
    if "threads" not in traits:
        found += 2 * [Where({"step": step}, lambda _, p: p.step == step)]
        both = {"step": step, "op": f"/{OUTER}/"}
        found += [Where(both, lambda _, p: p.step == step and p.is_in(Op, OUTER))]
    if "compiled" in traits:
        region = "^Torch-Compiled"
        found += 2 * [
            Where(
                {"annotation": f"/{region}/"}, lambda _, p: p.is_in(Annotation, region)
            )
        ]
    if "ranks" in traits:
        rank = random.randint(0, 1)
        found += 2 * [Where({"rank": rank}, lambda _, p: p.rank == rank)]
    if of_gpu:
        found += [
            Where(
                {"name": "triton*"},
                lambda a, _: getattr(a, "kernel", "").startswith("triton"),
            ),
            Where(
                {"phase": "optimizer"}, lambda _, p: p.is_in(Annotation, "^Optimizer")
            ),
            Where({"step": "1..2"}, lambda _, p: p.step in (1, 2))
            if "threads" not in traits
            else EVERYWHERE,
        ]
    if of_gpu:
        found += of_work_only(random, traits)
    if of_gpu and "streams" in traits:
        stream = random.choice((7, 20))
        found += 2 * [
            Where({"stream": stream}, lambda a, _: getattr(a, "stream", None) == stream)
        ]
    return random.choice(found)


def of_work_only(random: Random, traits: frozenset[str]) -> list[Where]:
    """Selections that only GPU work has, by what it is and what launched it."""
    ns = random.choice((5_000, 20_000))
    longer = (
        "SELECT gpu_op_id FROM staging.gpu_op "
        f"WHERE NOT is_collective AND end_ns - start_ns > {ns}"
    )
    dims = random.choice((((64, 32), (16, 32), (16,)), ((8, 4, 16), (8, 16, 4))))
    shape = str([list(of) for of in dims]).replace(" ", "")
    found = [
        Where({"sql": longer}, lambda a, _: getattr(a, "kernel_ns", 0) > ns),
        Where(
            {"shape": shape},
            lambda _, p: any(isinstance(s, Op) and s.dims == dims for s in p.scopes),
        ),
    ]
    if "threads" in traits:
        name = random.choice(("main", "autograd"))
        found.append(Where({"thread": name}, lambda _, p: p.thread == name))
    if "devices" in traits:
        number = random.randint(0, 1)
        found.append(
            Where(
                {"device": number},
                lambda a, p: p.device(getattr(a, "stream", 0)) == number,
            )
        )
    return found


@dataclass(frozen=True)
class Part:
    """One or more edits, and the equivalent change of a program."""

    order: int
    change: change.Change
    edits: list[Edit]
    name: str
    touches: frozenset[str] = frozenset()
    """What no other part of the scenario may touch."""


def _label(edit: Edit) -> str:
    values = " ".join(
        f"{k}={v}" for k, v in edit.items() if k not in {"target", "type"}
    )
    return f"{edit['target']}:{edit.get('type', '')} {values}"


def part(
    order: int, change_program: change.Change, edits: list[Edit], *touches: str
) -> Part:
    """A part, labelled by its first edit."""
    return Part(order, change_program, edits, _label(edits[0]), frozenset(touches))


def timed(random: Random, kind: str, at: Where) -> Part:
    """Change the time of GPU work."""
    edit: Edit = {"target": "gpu", "type": kind} | at.fields
    deed = random.choice(("set", "factor", "factor", "add"))
    if deed == "set":
        ns = random.choice((0, 5_000, 60_000))

        def changed(_: int) -> int:
            return ns

        return part(
            0,
            of_work(kind, at, changed),
            [edit | {"action": "set", "set_ns": ns}],
            "set",
        )
    if deed == "factor":
        factor = random.choice((0, 0.5, 2))
        return part(
            1,
            of_work(kind, at, lambda ns: round(ns * factor)),
            [edit | {"factor": factor}],
        )
    more = random.choice((8_000, 40_000))
    return part(2, of_work(kind, at, lambda ns: ns + more), [edit | {"add_ns": more}])


def of_work(kind: str, at: Where, lasting: Callable[[int], int]) -> change.Change:
    """Change the duration of GPU work of a kind."""

    def rewrite(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
        if is_work(action, kind) and at.holds(action, place):
            return (replace(action, kernel_ns=lasting(action.kernel_ns)),)
        return (action,)

    return rewritten(rewrite)


def slower(random: Random, at: Where) -> Part:
    """Multiply host time other than launches by a random factor."""
    types = OP_TYPES if "op" in at.fields else TYPES
    return paced(random.choice((2, 3)), at, types)


def paced(factor: float, at: Where, types: Iterable[str]) -> Part:
    """Multiply host time of some types; calls that record events get no shorter."""

    def rewrite(action: Action, place: Place, delays: Delays) -> tuple[Action, ...]:
        if not at.holds(action, place):
            return (action,)
        if isinstance(action, Gap | OtherCall):
            return (replace(action, ns=round(action.ns * factor)),)
        if isinstance(action, EventRecord | StreamWait):
            return (action, Gap(round((factor - 1) * delays.event_call_ns)))
        return (action,)

    def switches(program: Program, delays: Delays) -> tuple[Program, Delays]:
        # The time between a wake-up and the next action is the thread's own.
        return program, replace(
            delays, thread_switch_ns=round(factor * delays.thread_switch_ns)
        )

    edits = [
        {"target": "host", "type": of} | at.fields | {"factor": factor} for of in types
    ]
    both = [rewritten(rewrite), *([] if at.fields else [switches])]
    touches = ("ops",) if "op" in at.fields else ()
    return part(3, change.all_of(*both), edits, *touches)


def launches(random: Random) -> Part:
    """Change the time of calls that launch."""
    factor = random.choice((0, 0.5, 2))
    edit: Edit = {"target": "host", "type": "T4", "factor": factor}

    def graphs(action: Action) -> Action:
        if isinstance(action, GraphLaunch):
            return replace(action, ns=round(action.ns * factor))
        return action

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return change.launch_calls(factor)(change.each_action(program, graphs), delays)

    return part(4, change_program, [edit])


def new_ops(random: Random, at: Where) -> Part:
    """Insert ops before or after others."""
    place, ns = random.choice(("before", "after")), random.choice((4_000, 30_000))
    edit: Edit = {"target": "op", "name": f"/{OUTER}/"} | at.fields
    edit |= {"action": "insert", "place": place, "host_ns": ns}

    def rewrite(action: Action, here: Place, _: Delays) -> tuple[Action, ...]:
        if (
            isinstance(action, Op)
            and re.search(OUTER, action.name)
            and not here.is_in(Op, OUTER)
            and at.holds(action, here)
        ):
            new = Op("inserted", (Gap(ns),))
            return (new, action) if place == "before" else (action, new)
        return (action,)

    return part(5, rewritten(rewrite), [edit], "new ops")


def no_waits(kind: str, at: Where) -> Part:
    """Remove waits of hosts or of streams."""

    def rewrite(action: Action, place: Place, delays: Delays) -> tuple[Action, ...]:
        if kind == "host" and at.holds(action, place):
            if isinstance(action, StreamSync | DeviceSync | EventSync):
                return (EventSync("of nothing"),)
            if isinstance(action, Copy):
                return (replace(action, blocking=False),)
        call = action.call if isinstance(action, Unseen) else action
        if kind == "stream" and isinstance(call, StreamWait) and at.holds(call, place):
            if isinstance(action, Unseen):
                return (Gap(0),)
            return (OtherCall(call.call, delays.event_call_ns),)
        return (action,)

    edit: Edit = {"target": "wait", "type": kind} | at.fields
    return part(6, rewritten(rewrite), [edit])


def no_work(kind: str, at: Where) -> Part:
    """Remove GPU work, but not its launch."""

    def rewrite(action: Action, place: Place, delays: Delays) -> tuple[Action, ...]:
        if not is_work(action, kind) or not at.holds(action, place):
            return (action,)
        if isinstance(action, Copy) and action.blocking:
            return (action,)
        call = OtherCall(action.call, delays.launch_call_ns)
        around = action.around if isinstance(action, Launch) else None
        if around is None:
            return (call,)
        return (Gap(around.before_ns), call, Gap(around.after_ns))

    edit: Edit = {"target": "gpu", "type": kind} | at.fields | {"action": "remove"}
    if kind == "memcpy" and "name" not in edit:
        edit["name"] = "/Pinned|Device -> Device/"
    return part(5, rewritten(rewrite), [edit], f"beside {kind}")


def no_ops(names: str, at: Where) -> Part:
    """Remove ops."""

    def rewrite(action: Action, place: Place, delays: Delays) -> tuple[Action, ...]:
        if (
            isinstance(action, Op)
            and re.search(names, action.name)
            and at.holds(action, place)
        ):
            inside = Program((Rank((Thread("", (action,)),)),))
            gone, _ = change.without_ops(names)(inside, delays)
            return gone.ranks[0].threads[0].body
        return (action,)

    edit: Edit = {"target": "op", "name": f"/{names}/"} | at.fields
    edit |= {"action": "remove", "gaps": "all"}
    return part(8, rewritten(rewrite), [edit], "ops")


def new_work(random: Random, kind: str, at: Where) -> Part:
    """Insert GPU work before or after other GPU work."""
    place, ns = random.choice(("before", "after")), random.choice((6_000, 50_000))
    edit: Edit = {"target": "gpu", "type": kind} | at.fields
    edit |= {"action": "insert", "place": place, "gpu_ns": ns}

    def rewrite(action: Action, here: Place, _: Delays) -> tuple[Action, ...]:
        if not is_work(action, kind) or not at.holds(action, here):
            return (action,)
        new = (
            Launch(action.stream, ns)
            if kind == "collective"
            else replace(action, kernel_ns=ns)
        )
        if isinstance(new, Copy):
            new = replace(new, blocking=False)
        return (new, action) if place == "before" else (action, new)

    return part(
        9, rewritten(rewrite), [edit], f"beside {kind}", f"stream {kind}", "ops"
    )


def moved(kind: str, at: Where) -> Part:
    """Move GPU work to another stream."""
    numbers = iter(range(10**9))

    def rewrite(action: Action, place: Place, _: Delays) -> tuple[Action, ...]:
        if not is_work(action, kind) or not at.holds(action, place):
            return (action,)
        stream = action.stream
        to_stream = FREE_STREAM + place.device(stream)
        number = next(numbers)
        before, after = f"before move {number}", f"after move {number}"
        return (
            Unseen(EventRecord(before, stream)),
            Unseen(StreamWait(to_stream, before)),
            replace(action, stream=to_stream),
            Unseen(EventRecord(after, to_stream)),
            Unseen(StreamWait(stream, after)),
        )

    edit: Edit = {"target": "gpu", "type": kind} | at.fields
    edit |= {"action": "move", "to_stream": FREE_STREAM}
    return part(
        10,
        change.all_of(rewritten(rewrite), with_streams(FREE_STREAM)),
        [edit],
        f"stream {kind}",
        "streams",
    )


def with_streams(stream: int) -> change.Change:
    """One stream per device, numbered from a given number on."""

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        ranks = []
        for number, rank in enumerate(program.ranks):
            known = {number, *rank.devices.values()}
            more = {stream + device: device for device in known}
            ranks.append(replace(rank, devices={**rank.devices, **more}))
        return Program(tuple(ranks)), delays

    return change_program


def beside(kind: str, until: str) -> Part:
    """Overlap: GPU work on a stream of its own, awaited by its consumers."""
    edit: Edit = {
        "target": "gpu",
        "type": kind,
        "action": "overlap",
        "until": f"/{until}/",
    }
    overlap = change.overlap(KINDS[kind], until, FREE_STREAM)
    # Programs do not tell what replaces a removed consumer.
    return part(10, overlap, [edit], f"stream {kind}", "streams", "ops")


_DELAYS: dict[str, tuple[DelayName, ...]] = {
    "launch": ("launch_latency_ns",),
    "stream": ("queue_gap_ns",),
    "stream_wait": ("stream_wait_ns",),
    "return": ("sync_return_ns", "copy_return_ns"),
}


def delayed(kind: str, factor: float) -> Part:
    """Change delays."""

    def graphs(action: Action) -> Action:
        if isinstance(action, GraphLaunch):
            return replace(action, gap_ns=round(action.gap_ns * factor))
        return action

    def change_program(program: Program, delays: Delays) -> tuple[Program, Delays]:
        late = {name: getattr(delays, name) for name in _DELAYS[kind]}
        scaled = {name: round(ns * factor) for name, ns in late.items() if ns > 0}
        if kind == "stream":
            program = change.each_action(program, graphs)
        return program, replace(delays, **scaled)

    edit: Edit = {"target": "delay", "type": kind, "factor": factor}
    return part(11, change_program, [edit], f"delay {kind}")


def parts(random: Random, traits: frozenset[str]) -> Part:
    """A random part."""
    kinds = ["kernel", "kernel", "memcpy", "memset"]
    if "ranks" in traits:
        kinds += ["collective", "collective"]
    kind = random.choice(kinds)
    host = where(random, of_gpu=False, traits=traits)
    gpu = where(random, of_gpu=True, traits=traits)
    names = random.choice((OUTER, OTHERS, r"^aten::(addmm|bmm|copy_)$"))
    if kind == "collective" and not gpu.fields.keys() <= {"step"}:
        # All ranks take part in a collective and take the same time.
        gpu = EVERYWHERE
    if "threads" in traits and "rank" in host.fields:
        # Threads of all ranks have the same wake-up time.
        host = EVERYWHERE
    stream = gpu if gpu.fields.keys() <= {"stream", "rank"} else EVERYWHERE
    found: list[Callable[[], Part]] = [
        lambda: timed(random, kind, gpu),
        lambda: timed(random, kind, gpu),
        lambda: slower(random, host),
        lambda: launches(random),
        lambda: new_ops(random, host if "op" not in host.fields else EVERYWHERE),
        lambda: no_waits("host", host),
        lambda: no_waits("stream", stream),
        lambda: no_ops(names, host if "op" not in host.fields else EVERYWHERE),
        lambda: delayed(random.choice(sorted(_DELAYS)), random.choice((0, 0.5, 2))),
    ]
    if "graphs" not in traits:
        found.append(lambda: new_work(random, kind, gpu))
    if "gaps" not in traits:
        # Work of a graph keeps its gap, whatever it follows.
        found.append(lambda: no_work(kind, gpu))
    if "streams" in traits:
        found += [lambda: moved(kind, gpu)] * 2
        if not traits & {"threads", "graphs"}:
            found += [lambda: beside(kind, random.choice((OUTER, "^Optimizer")))] * 2
    return random.choice(found)()


@dataclass(frozen=True)
class Scenario:
    """Edits made together."""

    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The labels of its parts."""
        return "; ".join(of.name for of in self.parts)

    @property
    def edits(self) -> list[Edit]:
        """All edits."""
        return [edit for of in self.parts for edit in of.edits]

    @property
    def change(self) -> change.Change:
        """The equivalent change of the program."""
        ordered = sorted(self.parts, key=lambda of: of.order)
        return change.all_of(*(of.change for of in ordered))


def scenario(random: Random, count: int, traits: frozenset[str]) -> Scenario:
    """A random scenario with the given number of parts."""
    found: list[Part] = []
    touched: Counter[str] = Counter()
    while len(found) < count:
        new = parts(random, traits)
        if any(touched[what] for what in new.touches):
            continue
        touched.update(new.touches)
        found.append(new)
    return Scenario(tuple(found))
