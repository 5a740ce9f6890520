"""Changes of a program: what a scenario supposes of its trace, made where it was made.

Each is a function of a program and the delays of its machine, and returns both:

>>> program = Program((Rank((Thread("main", (Launch(7, 5_000), Gap(300)),),)),))
>>> program, _ = kernels(0.5)(program, Delays())
>>> program.ranks[0].threads[0].body[0].kernel_ns
2500
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
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

    from .program import Action, KernelCall

Change = Callable[[Program, Delays], tuple[Program, Delays]]

_GPU_WORK = Launch | Copy | Memset | Collective
_HOST_WAITS = StreamSync | DeviceSync | EventSync


def nothing(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Change nothing."""
    return program, delays


def all_of(*changes: Change) -> Change:
    """Make several changes, one after another."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        for one in changes:
            program, delays = one(program, delays)
        return program, delays

    return change


def kernels(factor: float, add_ns: int = 0) -> Change:
    """Let kernels last longer or shorter; not copies, nor collectives."""
    return _gpu_work(Launch, factor, add_ns)


def copies(factor: float) -> Change:
    """Let copies last longer or shorter."""
    return _gpu_work(Copy, factor)


def collectives(factor: float) -> Change:
    """Let collectives move their data faster or slower."""
    return _gpu_work(Collective, factor)


def without_work(kind: type[Launch | Memset]) -> Change:
    """Let calls that launch GPU work of a kind launch nothing; they take their time."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        def change_one(action: Action) -> Action:
            if isinstance(action, kind):
                return OtherCall(action.call, delays.launch_call_ns)
            return action

        return each_action(program, change_one), delays

    return change


def without_ops(names: str) -> Change:
    """Let ops whose names match an expression do nothing, and take no time.

    What they let wait for each other stays: events are recorded and awaited unseen.
    """

    def change_one(action: Action) -> Action:
        if isinstance(action, Op) and re.search(names, action.name):
            return Annotation("nothing", tuple(_order(action.body)))
        return action

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return each_action(program, change_one), delays

    return change


def _order(body: Iterable[Action]) -> Iterator[Action]:
    """What actions let wait for each other."""
    for action in body:
        if isinstance(action, Op | Annotation):
            yield from _order(action.body)
        elif isinstance(action, EventRecord | StreamWait):
            yield Unseen(action)
        elif isinstance(action, Unseen | Notify | Await):
            yield action


def _gpu_work(kind: type[KernelCall], factor: float, add_ns: int = 0) -> Change:
    def change_one(action: Action) -> Action:
        if not isinstance(action, kind) or not isinstance(action, _GPU_WORK):
            return action
        return replace(action, kernel_ns=round(action.kernel_ns * factor) + add_ns)

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        return each_action(program, change_one), delays

    return change


def launch_calls(factor: float) -> Change:
    """Let the calls that launch work take longer or shorter."""

    def change(program: Program, delays: Delays) -> tuple[Program, Delays]:
        launch_call_ns = round(delays.launch_call_ns * factor)
        return program, replace(delays, launch_call_ns=launch_call_ns)

    return change


def host_time(factor: float) -> Change:
    """Let all that hosts do take longer or shorter; not what they wait for."""

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
    """Let no call of a host wait for a device; it takes the time of an idle call."""

    def change_one(action: Action) -> Action:
        if isinstance(action, _HOST_WAITS):
            return EventSync("of nothing")
        if isinstance(action, Copy):
            return replace(action, blocking=False)
        return action

    return each_action(program, change_one), delays


def no_stream_waits(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Let no stream wait for an event."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Unseen) and isinstance(action.call, StreamWait):
            return Gap(0)
        if isinstance(action, StreamWait):
            return OtherCall(action.call, delays.event_call_ns)
        return action

    return each_action(program, change_one), delays


def free_loading(program: Program, delays: Delays) -> tuple[Program, Delays]:
    """Let batches be there at once: what loads them takes no time."""

    def change_one(action: Action) -> Action:
        if isinstance(action, Annotation) and action.name.startswith(DATA_PREFIX):
            return replace(action, body=())
        return action

    return each_action(program, change_one), delays


def each_action(program: Program, change: Callable[[Action], Action]) -> Program:
    """Return the program with every action, inner ones first, replaced by another."""

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
