"""Changes of a program: the counterparts of scenarios, as ground truth for them.

A change takes a program and its delays, and returns both:

>>> program = Program((Rank((Thread("main", (Launch(7, 5_000), Gap(300)),),)),))
>>> program, _ = kernels(0.5)(program, Delays())
>>> program.ranks[0].threads[0].body[0].kernel_ns
2500
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from types import MappingProxyType
from typing import TYPE_CHECKING

from .program import (
    DATA_PREFIX,
    Annotation,
    Await,
    Collective,
    Copy,
    Delays,
    DeviceSync,
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
    StreamSync,
    StreamWait,
    Thread,
    Unseen,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .program import Action, DelayName, KernelCall

Change = Callable[[Program, Delays], tuple[Program, Delays]]

_GPU_WORK = Launch | Copy | Memset | Collective
_HOST_WAITS = StreamSync | DeviceSync | EventSync


def nothing(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Change nothing."""
    return program, delays


def all_of(*changes: Change) -> Change:
    """Apply several changes, one after another."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        for one in changes:
            program, delays = one(program, delays)
        return program, delays

    return change


def kernels(factor: float, add_ns: int = 0) -> Change:
    """Scale the time of kernels, but not of copies and collectives."""
    return _gpu_work(Launch, factor, add_ns)


def copies(factor: float) -> Change:
    """Scale the time of copies."""
    return _gpu_work(Copy, factor)


def collectives(factor: float) -> Change:
    """Scale the data movement of collectives."""
    return _gpu_work(Collective, factor)


def without_work(kind: type[Launch | Memset]) -> Change:
    """Remove GPU work of a kind; its launch calls keep their time."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        def change_one(action: Action) -> Action:
            if isinstance(action, kind):
                return OtherCall(action.call, delays.launch_call_ns)
            return action

        return each_action(program, change_one), delays

    return change


def without_ops(names: str) -> Change:
    """Remove ops whose names match an expression.

    The dependencies that they create stay: events are recorded and awaited unseen.
    """

    def change_one(action: Action) -> Action:
        if isinstance(action, Op) and re.search(names, action.name):
            return Annotation("nothing", tuple(_order(action.body)))
        return action

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return each_action(program, change_one), delays

    return change


def of_own(names: str, change_one: Callable[[Action, Delays], Action]) -> Change:
    """Change the own actions of matching ops, but not those of ops in them."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        def own(action: Action) -> Action:
            if isinstance(action, Annotation):
                return replace(action, body=tuple(map(own, action.body)))
            return action if isinstance(action, Op) else change_one(action, delays)

        def change_op(action: Action) -> Action:
            if isinstance(action, Op) and re.search(names, action.name):
                return replace(action, body=tuple(map(own, action.body)))
            return action

        return each_action(program, change_op), delays

    return change


def own_host_time(factor: int, names: str) -> Change:
    """Scale the own host time of matching ops, without that of ops in them."""

    def change_one(action: Action, delays: Delays) -> Action:
        if isinstance(action, Gap | OtherCall):
            return replace(action, ns=action.ns * factor)
        if isinstance(action, EventRecord | StreamWait):
            more = Gap((factor - 1) * delays.event_call_ns)
            return Annotation("longer", (action, more))
        return action

    return of_own(names, change_one)


def own_kernels(factor: float, names: str) -> Change:
    """Scale the kernels that matching ops launch themselves."""

    def change_one(action: Action, _: Delays) -> Action:
        if isinstance(action, Launch):
            return replace(action, kernel_ns=round(action.kernel_ns * factor))
        return action

    return of_own(names, change_one)


def without_own(names: str) -> Change:
    """Remove matching ops, but not the ops in them."""

    def change_one(action: Action, _: Delays) -> Action:
        return Annotation("nothing", tuple(_order((action,))))

    return of_own(names, change_one)


def _order(body: Iterable[Action]) -> Iterator[Action]:
    """The dependencies that actions create, as unseen actions."""
    for action in body:
        if isinstance(action, Op | Annotation):
            yield from _order(action.body)
        elif isinstance(action, EventRecord | StreamWait):
            yield Unseen(action)
        elif isinstance(action, Unseen | Notify | Await):
            yield action


def insert_kernels(place: str, kernel_ns: int) -> Change:
    """Launch a kernel before or after each launch of one, on its stream."""

    def change_one(action: Action, _: Rank) -> tuple[Action, ...]:
        if not isinstance(action, Launch):
            return (action,)
        new = replace(action, kernel_ns=kernel_ns)
        return (new, action) if place == "before" else (action, new)

    return _several(change_one)


def move_copies(stream: int) -> Change:
    """Move copies to another stream, with waits that keep their order.

    On devices other than the rank's own, the stream has a following number.
    """
    numbers = count()

    def change_one(action: Action, rank: Rank) -> tuple[Action, ...]:
        if not isinstance(action, Copy):
            return (action,)
        to_stream = stream + rank.devices.get(action.stream, 0)
        number = next(numbers)
        before, after = f"before move {number}", f"after move {number}"
        return (
            Unseen(EventRecord(before, action.stream)),
            Unseen(StreamWait(to_stream, before)),
            replace(action, stream=to_stream),
            Unseen(EventRecord(after, to_stream)),
            Unseen(StreamWait(action.stream, after)),
        )

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        program, delays = _several(change_one)(program, delays)
        ranks = [
            replace(rank, devices={**rank.devices, **_beside(stream, rank)})
            for rank in program.ranks
        ]
        return Program(tuple(ranks)), delays

    return change


def insert_ops(place: str, names: str, ns: int) -> Change:
    """Insert an op before or after the ops whose names match.

    Of nested matching ops, the outermost counts.
    """

    def changed(body: tuple[Action, ...]) -> Iterator[Action]:
        new = Op("inserted", (Gap(ns),))
        for action in body:
            if isinstance(action, Op) and re.search(names, action.name):
                yield from (new, action) if place == "before" else (action, new)
            elif isinstance(action, Op | Annotation):
                yield replace(action, body=tuple(changed(action.body)))
            else:
                yield action

    return _of_threads(lambda _, body: tuple(changed(body)))


def prefetch(
    workers: int,
    ahead: int,
    take_ns: int = 0,
    spare_ns: Mapping[str, int] = MappingProxyType({}),
) -> Change:
    """Let worker threads fetch batches, which the thread takes one by one.

    A worker begins a batch once the thread has taken the worker's batch `ahead` before
    it; taking costs the thread `take_ns`. Threads are woken without delay. `spare_ns`
    is, for each thread by name, the rest of a step without the time before its first
    batch: at the beginning of the trace, workers are ahead by that.
    """

    def changed(thread: Thread) -> list[Thread]:
        bodies: list[list[Action]] = [[] for _ in range(workers)]
        leads = _leads(thread, workers, spare_ns.get(thread.name, 0))
        numbers = count()

        def change_one(action: Action) -> tuple[Action, ...]:
            if not isinstance(action, Annotation) or not is_loading(action):
                return (action,)
            number = next(numbers)
            flag = f"batch {number} of {thread.name}"
            worker = bodies[number % workers]
            if number >= workers * ahead:
                asked = f"taken {number - workers * ahead} of {thread.name}"
                worker.append(Await(asked, "fork"))
                worker += action.body
            else:
                whole_ns = loading_ns(action)
                left_ns = max(whole_ns - leads[number % workers], 0)
                leads[number % workers] -= whole_ns - left_ns
                worker.append(Gap(left_ns))
            worker.append(Notify(flag))
            taken = Notify(f"taken {number} of {thread.name}")
            return (Await(flag, "join"), Gap(take_ns), taken)

        taking = replace(thread, body=tuple(_each_scope(thread.body, change_one)))
        names = [f"worker {number} of {thread.name}" for number in range(workers)]
        return [taking, *map(Thread, names, map(tuple, bodies))]

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        ranks = []
        for rank in program.ranks:
            threads = [changed(thread) for thread in rank.threads]
            working = chain.from_iterable(of[1:] for of in threads)
            of_rank = (*(of[0] for of in threads), *working)
            ranks.append(replace(rank, threads=of_rank))
        return Program(tuple(ranks)), replace(delays, thread_switch_ns=0)

    return change


def _leads(thread: Thread, workers: int, spare_ns: int) -> list[int]:
    """[ns] The lead of each worker: in steady state, batches finish evenly spaced."""
    batches: list[int] = []

    def note(action: Action) -> tuple[Action, ...]:
        if isinstance(action, Annotation) and is_loading(action):
            batches.append(loading_ns(action))
        return (action,)

    tuple(_each_scope(thread.body, note))
    mean_ns = sum(batches) / len(batches) if batches else 0
    shares = [(workers - 1 - number) / workers for number in range(workers)]
    return [max(round(mean_ns * share) + spare_ns, 0) for share in shares]


def loading_ns(action: Annotation) -> int:
    """[ns] The time to fetch a batch."""
    return sum(inner.ns for inner in action.body if isinstance(inner, Gap))


def is_loading(action: Annotation) -> bool:
    """Whether a range fetches a batch."""
    return action.name.startswith(DATA_PREFIX)


def _each_scope(
    body: Iterable[Action], change_one: Callable[[Action], tuple[Action, ...]]
) -> Iterator[Action]:
    """The body with each action replaced by several, outer scopes first."""
    for action in body:
        new = change_one(action)
        if new == (action,) and isinstance(action, Op | Annotation):
            yield replace(action, body=tuple(_each_scope(action.body, change_one)))
        else:
            yield from new


def overlap(kind: type[KernelCall], until: str, stream: int) -> Change:
    """Overlap work of a kind on another stream until its consumer.

    It waits for earlier work on its old stream. Later work there does not wait for it.
    The next op or range that matches `until` and launches something does: the first
    work on each of its streams. On devices other than the rank's own, the stream has a
    number after `stream`.
    """

    def changed(rank: Rank) -> Rank:
        known = _launches(rank)
        waits = _takers(known, kind, until)
        numbers = count()

        def change_one(action: Action) -> tuple[Action, ...]:
            if not isinstance(action, _GPU_WORK):
                return (action,)
            number = next(numbers)
            to_stream = action.stream
            before: list[Action] = []
            behind: list[Action] = []
            if isinstance(action, kind):
                to_stream = stream + rank.devices.get(action.stream, 0)
                order = f"before overlap {number}"
                before = [
                    Unseen(EventRecord(order, action.stream)),
                    Unseen(StreamWait(to_stream, order)),
                ]
                behind = [Unseen(EventRecord(f"overlap {number}", to_stream))]
            before += [
                Unseen(StreamWait(to_stream, f"overlap {other}"))
                for other in waits.get(number, ())
            ]
            return (*before, replace(action, stream=to_stream), *behind)

        (thread,) = rank.threads
        body = _spliced(thread.body, change_one)
        devices = {**rank.devices, **_beside(stream, rank)}
        return Rank((replace(thread, body=body),), devices)

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return Program(tuple(map(changed, program.ranks))), delays

    return change


Launched = list[tuple["KernelCall", tuple[tuple[int, str], ...]]]
"""The launches of a thread in order, with their enclosing scopes (number, name)."""


def _launches(rank: Rank) -> Launched:
    """The launches of a rank with one thread."""
    found: Launched = []
    numbers = count()

    def walk(body: Iterable[Action], around: tuple[tuple[int, str], ...]) -> None:
        for action in body:
            if isinstance(action, Op | Annotation):
                walk(action.body, (*around, (next(numbers), action.name)))
            elif isinstance(action, _GPU_WORK):
                found.append((action, around))

    (thread,) = rank.threads
    walk(thread.body, ())
    return found


def _takers(
    known: Launched, kind: type[KernelCall], until: str
) -> dict[int, list[int]]:
    """The overlapped launches that each launch must wait for, by ordinal."""
    waits: dict[int, list[int]] = {}
    for number, (action, around) in enumerate(known):
        if not isinstance(action, kind):
            continue
        own = {op for op, _ in around}
        taking, streams = None, set()
        for later, (other, scopes) in enumerate(known[number + 1 :], number + 1):
            named = [
                op for op, name in scopes if re.search(until, name) and op not in own
            ]
            if taking is None and named:
                taking = named[0]
            if taking in named and other.stream not in streams:
                streams.add(other.stream)
                waits.setdefault(later, []).append(number)
    return waits


Groups = Mapping[int, Sequence[Sequence[int]]]
"""Groups of launch ordinals, from 0, by thread number."""


def fuse(groups: Groups, kernel_ns: Callable[[int, int], int]) -> Change:
    """Replace each group of launches by one kernel.

    `kernel_ns` gives its time by the number of the thread and of the first launch.
    """

    def changed(thread: int, body: tuple[Action, ...]) -> tuple[Action, ...]:
        firsts = {group[0] for group in groups.get(thread, ())}
        others = {number for group in groups.get(thread, ()) for number in group[1:]}
        numbers = count()

        def change_one(action: Action) -> tuple[Action, ...]:
            if not isinstance(action, _GPU_WORK):
                return (action,)
            number = next(numbers)
            if number in firsts:
                return (replace(action, kernel_ns=kernel_ns(thread, number)),)
            return () if number in others else (action,)

        return _spliced(body, change_one)

    return _of_threads(changed)


def capture(groups: Groups, ns: int, gap_ns: int) -> Change:
    """Launch each group of GPU work as a graph, at the place of its first launch.

    Events recorded or awaited in between are part of the graph; their calls stay.
    """

    def changed(
        thread: int, body: tuple[Action, ...], delays: Delays
    ) -> tuple[Action, ...]:
        graphs = _parts(body, groups.get(thread, ()))
        numbers, under_way = count(), [-1]

        def change_one(action: Action) -> tuple[Action, ...]:
            if isinstance(action, _GPU_WORK):
                number = next(numbers)
                for group in groups.get(thread, ()):
                    if number in group:
                        under_way[0] = -1 if number == group[-1] else number
                        if number == group[0]:
                            return (GraphLaunch(graphs[number], ns, gap_ns),)
                        return ()
            elif under_way[0] >= 0 and isinstance(action, EventRecord | StreamWait):
                return (OtherCall(action.call, delays.event_call_ns),)
            elif under_way[0] >= 0 and isinstance(action, Unseen):
                return ()
            return (action,)

        return _spliced(body, change_one)

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return _of_threads(partial(changed, delays=delays))(program, delays)

    return change


def _parts(
    body: tuple[Action, ...], groups: Sequence[Sequence[int]]
) -> dict[int, tuple[Launch | Copy | Memset | Unseen, ...]]:
    """The work of each graph, with its order, by the number of its first launch."""
    found: dict[int, list[Launch | Copy | Memset | Unseen]] = {}
    numbers, first, last = count(), -1, -1

    for action in _flat(body):
        if isinstance(action, Launch | Copy | Memset | Collective):
            number = next(numbers)
            for group in groups:
                if number == group[0]:
                    first, last = group[0], group[-1]
                    found[first] = []
            if number <= last and not isinstance(action, Collective):
                found[first].append(action)
            if number >= last:
                last = -1
        elif last >= 0 and isinstance(action, EventRecord | StreamWait):
            found[first].append(Unseen(action))
        elif last >= 0 and isinstance(action, Unseen):
            found[first].append(action)
    return {number: tuple(work) for number, work in found.items()}


def _flat(body: Iterable[Action]) -> Iterator[Action]:
    """The actions in order, without enclosing scopes."""
    for action in body:
        if isinstance(action, Op | Annotation):
            yield from _flat(action.body)
        else:
            yield action


def _spliced(
    body: tuple[Action, ...], change_one: Callable[[Action], tuple[Action, ...]]
) -> tuple[Action, ...]:
    """The body with each action replaced by several, or none."""
    found: list[Action] = []
    for action in body:
        if isinstance(action, Op | Annotation):
            found.append(replace(action, body=_spliced(action.body, change_one)))
        else:
            found += change_one(action)
    return tuple(found)


def _of_threads(
    changed: Callable[[int, tuple[Action, ...]], tuple[Action, ...]],
) -> Change:
    """Change each thread of each rank, by its number in the rank."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        ranks = (
            replace(
                rank,
                threads=tuple(
                    replace(thread, body=changed(number, thread.body))
                    for number, thread in enumerate(rank.threads)
                ),
            )
            for rank in program.ranks
        )
        return Program(tuple(ranks)), delays

    return change


def _beside(stream: int, rank: Rank) -> dict[int, int]:
    """A stream for each device of a rank other than its own."""
    return {stream + device: device for device in rank.devices.values()}


def _several(change_one: Callable[[Action, Rank], tuple[Action, ...]]) -> Change:
    """Replace single actions by several."""

    def changed(body: tuple[Action, ...], rank: Rank) -> Iterator[Action]:
        for action in body:
            if isinstance(action, Op | Annotation):
                yield replace(action, body=tuple(changed(action.body, rank)))
            else:
                yield from change_one(action, rank)

    def threads(rank: Rank) -> tuple[Thread, ...]:
        return tuple(
            replace(thread, body=tuple(changed(thread.body, rank)))
            for thread in rank.threads
        )

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        ranks = (replace(rank, threads=threads(rank)) for rank in program.ranks)
        return Program(tuple(ranks)), delays

    return change


def _gpu_work(kind: type[KernelCall], factor: float, add_ns: int = 0) -> Change:
    def change_one(action: Action) -> Action:
        if not isinstance(action, kind) or not isinstance(action, _GPU_WORK):
            return action
        return replace(action, kernel_ns=round(action.kernel_ns * factor) + add_ns)

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return each_action(program, change_one), delays

    return change


def launch_calls(factor: float) -> Change:
    """Scale the time of launch calls, with that of calls around them."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Launch) and action.around is not None:
            before_ns = round(action.around.before_ns * factor)
            after_ns = round(action.around.after_ns * factor)
            around = replace(action.around, before_ns=before_ns, after_ns=after_ns)
            return replace(action, around=around)
        return action

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        launch_call_ns = round(delays.launch_call_ns * factor)
        delays = replace(delays, launch_call_ns=launch_call_ns)
        return each_action(program, change_one), delays

    return change


def host_time(factor: float) -> Change:
    """Scale all host time except waits."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Gap | OtherCall):
            return replace(action, ns=round(action.ns * factor))
        return action

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        program, delays = launch_calls(factor)(program, delays)
        event_call_ns = round(delays.event_call_ns * factor)
        switch_ns = round(delays.thread_switch_ns * factor)
        delays = replace(
            delays, event_call_ns=event_call_ns, thread_switch_ns=switch_ns
        )
        return each_action(program, change_one), delays

    return change


def no_host_waits(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Remove all host waits for devices; the calls take the time of an idle wait."""

    def change_one(action: Action) -> Action:
        if isinstance(action, _HOST_WAITS):
            return EventSync("of nothing")
        if isinstance(action, Copy):
            return replace(action, blocking=False)
        return action

    return each_action(program, change_one), delays


def no_host_waits_in(names: str) -> Change:
    """Remove host waits for devices in ops whose names match an expression."""

    def change_one(action: Action, delays: Delays) -> Action:
        if isinstance(action, Op) and re.search(names, action.name):
            inside = Program((Rank((Thread("inside", action.body),)),))
            changed, _ = no_host_waits(inside, delays)
            return replace(action, body=changed.ranks[0].threads[0].body)
        return action

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return each_action(program, partial(change_one, delays=delays)), delays

    return change


def no_waits_of_stream(stream: int) -> Change:
    """Remove the event waits of one stream."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        def change_one(action: Action) -> Action:
            call = action.call if isinstance(action, Unseen) else action
            if not isinstance(call, StreamWait) or call.stream != stream:
                return action
            if isinstance(action, Unseen):
                return Gap(0)
            return OtherCall(call.call, delays.event_call_ns)

        return each_action(program, change_one), delays

    return change


def device_delays(factor: float) -> Change:
    """Scale the delays after causes on a device."""
    names: tuple[DelayName, ...] = (
        "launch_latency_ns",
        "queue_gap_ns",
        "stream_wait_ns",
        "sync_return_ns",
        "copy_return_ns",
    )

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        late = {name: getattr(delays, name) for name in names}
        scaled = {name: round(ns * factor) for name, ns in late.items() if ns > 0}
        return program, replace(delays, **scaled)

    return change


def no_stream_waits(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Remove all event waits of streams."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Unseen) and isinstance(action.call, StreamWait):
            return Gap(0)
        if isinstance(action, StreamWait):
            return OtherCall(action.call, delays.event_call_ns)
        return action

    return each_action(program, change_one), delays


def loading(factor: float) -> Change:
    """Scale the time to load batches."""

    def change_inner(action: Action) -> Action:
        if isinstance(action, Gap):
            return replace(action, ns=round(action.ns * factor))
        return action

    def change_one(action: Action) -> Action:
        if isinstance(action, Annotation) and is_loading(action):
            return replace(action, body=tuple(map(change_inner, action.body)))
        return action

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return each_action(program, change_one), delays

    return change


def free_loading(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Make loading take no time."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Annotation) and is_loading(action):
            return replace(action, body=())
        return action

    return each_action(program, change_one), delays


def each_action(program: Program, change: Callable[[Action], Action]) -> Program:
    """Replace every action of a program, inner ones first."""

    def changed(action: Action) -> Action:
        if isinstance(action, Op | Annotation):
            action = replace(action, body=tuple(map(changed, action.body)))
        return change(action)

    return Program(
        tuple(
            Rank(
                tuple(
                    Thread(thread.name, tuple(map(changed, thread.body)))
                    for thread in rank.threads
                ),
                rank.devices,
            )
            for rank in program.ranks
        )
    )
