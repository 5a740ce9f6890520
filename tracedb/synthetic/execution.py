"""Execute a program: host threads in order of time, kernels as their causes allow.

- A kernel starts at the latest of: end of its launch + launch latency, end of the
  previous kernel on its stream + queue gap, end of each kernel its stream was told to
  wait for + stream wait.
- A wait (also a blocking copy) ends at the later of: its start + its own cost, end of
  each kernel it waits for + return delay.
- A collective ends on all ranks at the latest start of its kernels + its duration.

What a wait waits for is fixed at its call, as on a real device: an event that was never
recorded is not waited for, nor is a launch of another thread that has not ended. Calls
at the same time are ordered by rank, then thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, assert_never, cast

from .device import Device, Lags, Rendezvous, edges
from .event_times import Agenda, Cause, EventTime
from .kineto import GeneratedTrace
from .program import (
    Annotation,
    Await,
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
    Notify,
    Op,
    OtherCall,
    ProgramError,
    StreamSync,
    StreamWait,
    Unseen,
    seeded,
)
from .truth import HostEvent, Kernel, ThreadWait, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from random import Random

    from .device import Work
    from .program import (
        Action,
        Around,
        Call,
        DelayName,
        HostWait,
        KernelCall,
        PlainCall,
        Program,
        Rank,
        Scope,
        Thread,
        Undelayed,
    )
    from .truth import EdgeKind, HostKind

BASE_NS = 1_751_410_836_000_000_000
START_NS = BASE_NS + 4_458_676_416_000_000
"""[ns] When all threads of all ranks begin; the clocks of the ranks agree."""

_FIRST_PID = 19_392
_FIRST_CORRELATION = 20


def execute(
    program: Program, delays: Delays | None = None, seed: int = 0
) -> list[GeneratedTrace]:
    """Return one trace per rank; `seed` matters only for delays with jitter."""
    truths = _Job(program, delays or Delays(), seed).run()
    return [GeneratedTrace(truth) for truth in truths]


@dataclass(slots=True)
class _Frame:
    """An op or annotation whose body is being executed, or a whole thread."""

    actions: Iterator[Action]
    event: HostEvent | None = None
    external_id: int | None = None
    """The External id of the innermost op."""


class _Outer(NamedTuple):
    """An open call in which a launch is nested."""

    call: HostEvent
    around: Around


@dataclass(slots=True)
class _Flag:
    event_time: EventTime = field(default_factory=EventTime)
    source: int | None = None


class _Process:
    """One rank: its device and what its threads share."""

    def __init__(self, truth: Truth, agenda: Agenda, rendezvous: Rendezvous) -> None:
        self.truth = truth
        self.device = Device(truth, agenda, rendezvous)
        self.flags: dict[str, _Flag] = {}
        self.external_ids = count(1)
        self.correlations = count(_FIRST_CORRELATION)

    def flag(self, name: str) -> _Flag:
        return self.flags.setdefault(name, _Flag())


@dataclass(slots=True)
class _HostThread:
    """A thread and its progress."""

    index: int
    tid: int
    name: str
    process: _Process
    random: Random
    frames: list[_Frame]
    now_ns: int = START_NS
    last: int | None = None
    """The op or call that ended last."""
    resumed: list[Cause] = field(default_factory=list)
    """Flags waited for since the last op or call began."""
    resumed_ns: int = START_NS
    blocked_on: str = ""
    pending: Callable[[], None] | None = None
    """The end of a launch."""
    own: Mapping[DelayName, int] = field(default_factory=dict)
    """Delays of the current action that are not the machine's."""

    @property
    def parent(self) -> int | None:
        """The op or annotation it is in."""
        event = self.frames[-1].event
        return None if event is None else event.id

    @property
    def latest(self) -> int | None:
        """The op it is in, else the op or call that ended last."""
        inside = [frame.event for frame in self.frames if frame.event is not None]
        ops = [event.id for event in inside if event.kind == "op"]
        return ops[-1] if ops else self.last


class _Job:
    """A program during execution."""

    def __init__(self, program: Program, delays: Delays, seed: int) -> None:
        self.delays = delays
        self.agenda = Agenda()
        self.ids = count(1)
        self.rendezvous = Rendezvous(len(program.ranks), self.agenda)
        self.threads: list[_HostThread] = []
        self.queue: list[tuple[int, int]] = []
        self.processes = [
            self._process(number, len(program.ranks), rank, seed)
            for number, rank in enumerate(program.ranks)
        ]

    def _process(self, number: int, world_size: int, rank: Rank, seed: int) -> _Process:
        pid = _FIRST_PID + number
        tids = [pid, *range(pid + 10_000, pid + 9_999 + len(rank.threads))]
        names = [thread.name for thread in rank.threads]
        threads = dict(zip(tids, names, strict=True))
        truth = Truth(number, world_size, number, pid, BASE_NS, threads, rank.devices)
        process = _Process(truth, self.agenda, self.rendezvous)
        for tid, thread in zip(tids, rank.threads, strict=True):
            self._add(process, tid, thread, seeded(seed, number, thread.name))
        return process

    def _add(self, process: _Process, tid: int, thread: Thread, random: Random) -> None:
        frames = [_Frame(iter(thread.body))]
        index = len(self.threads)
        self.threads.append(
            _HostThread(index, tid, thread.name, process, random, frames)
        )
        heappush(self.queue, (START_NS, index))

    def run(self) -> list[Truth]:
        """Execute all threads to their end."""
        while self.queue:
            _, index = heappop(self.queue)
            self._advance(self.threads[index])
        self._check_ended()
        truths = [process.truth for process in self.processes]
        for truth in truths:
            truth.edges.sort(key=lambda edge: (edge.target, edge.source, edge.kind))
        return truths

    def _check_ended(self) -> None:
        stuck = [
            f"rank {thread.process.truth.rank} thread {thread.name!r} "
            f"in {thread.blocked_on}"
            for thread in self.threads
            if thread.frames
        ]
        if stuck or self.rendezvous.open:
            collectives = [f"{group} #{n}" for group, n in self.rendezvous.open]
            raise ProgramError(
                f"deadlock: blocked {stuck}, incomplete collectives {collectives}; "
                "raise each flag and launch each collective on all ranks"
            )

    def _advance(self, thread: _HostThread) -> None:
        """Run one action of a thread, or leave a finished scope."""
        if thread.pending is not None:
            then, thread.pending = thread.pending, None
            then()
            return
        action = next(thread.frames[-1].actions, None)
        if action is not None:
            undelayed, thread.own = _apart(action)
            self._perform(thread, undelayed)
            return
        event = thread.frames.pop().event
        if event is not None:
            self._close(thread, event, thread.now_ns)

    def _perform(self, thread: _HostThread, action: Undelayed) -> None:
        match action:
            case Gap():
                self._resume(thread, thread.now_ns + action.ns)
            case Op() | Annotation():
                self._enter(thread, action)
            case Launch() | Copy() | Memset() | Collective():
                self._launch(thread, action)
            case GraphLaunch():
                self._launch_graph(thread, action)
            case StreamSync() | DeviceSync() | EventSync():
                self._wait(thread, action)
            case EventRecord() | StreamWait() | OtherCall():
                self._plain_call(thread, action)
            case Unseen():
                self._unseen(thread, action)
            case Notify():
                self._notify(thread, action)
            case Await():
                self._await(thread, action)
            case _:
                assert_never(action)

    def _draw(self, thread: _HostThread, name: DelayName) -> int:
        drawn = self.delays.draw(name, thread.random)
        return thread.own.get(name, drawn)

    def _resume(self, thread: _HostThread, ns: int) -> None:
        thread.now_ns = ns
        heappush(self.queue, (ns, thread.index))

    def _later(self, thread: _HostThread, ns: int, then: Callable[[], None]) -> None:
        """Do something else before the next action of a thread."""
        thread.pending = then
        self._resume(thread, ns)

    # Host events

    def _open(
        self,
        thread: _HostThread,
        kind: HostKind,
        action: Call | Scope,
        external_id: int | None,
    ) -> HostEvent:
        name = action.name if isinstance(action, Op | Annotation) else action.call
        event = HostEvent(
            id=next(self.ids),
            kind=kind,
            name=name,
            thread=thread.tid,
            start_ns=thread.now_ns,
            parent=thread.parent,
            external_id=external_id,
            action=action,
        )
        thread.process.truth.host_events.append(event)
        if kind != "annotation":
            self._link(thread, event)
        return event

    def _link(self, thread: _HostThread, event: HostEvent) -> None:
        """Add the edges of flags that were awaited before an event."""
        links = edges(thread.resumed, event.id, thread.resumed_ns)
        thread.process.truth.edges.extend(links)
        thread.resumed.clear()

    def _open_call(
        self, thread: _HostThread, kind: HostKind, action: Call
    ) -> HostEvent:
        call = self._open(thread, kind, action, thread.frames[-1].external_id)
        call.correlation = next(thread.process.correlations)
        return call

    def _enter(self, thread: _HostThread, action: Scope) -> None:
        external_id = next(thread.process.external_ids)
        kind: HostKind = "op" if isinstance(action, Op) else "annotation"
        event = self._open(thread, kind, action, external_id)
        innermost = external_id if kind == "op" else thread.frames[-1].external_id
        thread.frames.append(_Frame(iter(action.body), event, innermost))
        self._resume(thread, thread.now_ns)

    def _close(self, thread: _HostThread, event: HostEvent, ns: int) -> None:
        event.end_ns = ns
        if event.kind != "annotation":
            thread.last = event.id
        self._resume(thread, ns)

    # Calls

    def _plain_call(self, thread: _HostThread, action: PlainCall) -> None:
        call = self._open_call(thread, "other", action)
        device = thread.process.device
        if isinstance(action, OtherCall):
            self._close(thread, call, call.start_ns + action.ns)
            return
        if isinstance(action, EventRecord):
            device.record(action.event, action.stream, call.id)
        else:
            call.recorded_by = self._recorder(thread, action.event)
            device.hold(action.stream, action.event)
        self._close(thread, call, call.start_ns + self._draw(thread, "event_call_ns"))

    def _unseen(self, thread: _HostThread, action: Unseen) -> None:
        """Record an event, or make a stream wait for one, without a call."""
        thread.process.device.order(action)
        self._resume(thread, thread.now_ns)

    def _recorder(self, thread: _HostThread, event: str) -> int | None:
        mark = thread.process.device.marks.get(event)
        return None if mark is None else mark.call

    def _launch(self, thread: _HostThread, action: KernelCall) -> None:
        if not isinstance(action, Launch) or action.around is None:
            self._launch_within(thread, action, None)
            return
        outer = _Outer(self._open_call(thread, "launch", action), action.around)
        outer.call.name = action.around.call
        inside = partial(self._launch_within, thread, action, outer)
        self._later(thread, outer.call.start_ns + action.around.before_ns, inside)

    def _launch_within(
        self, thread: _HostThread, action: KernelCall, outer: _Outer | None
    ) -> None:
        """Launch a kernel, by a call of its own or one nested in another."""
        kind: HostKind = "launch" if outer is None else "nested"
        call = self._open_call(thread, kind, action)
        if outer is not None and outer.around.shares_correlation:
            call.correlation = outer.call.correlation
        end_ns = call.start_ns + self._draw(thread, "launch_call_ns")
        lags = Lags(
            self._draw(thread, "launch_latency_ns"),
            self._draw(thread, "queue_gap_ns"),
            self._draw(thread, "stream_wait_ns"),
        )
        submit = partial(self._submit, thread, call, action, lags, outer)
        self._later(thread, end_ns, submit)

    def _submit(
        self,
        thread: _HostThread,
        call: HostEvent,
        action: KernelCall,
        lags: Lags,
        outer: _Outer | None,
    ) -> None:
        """Queue the kernel of a call, and end the call unless it waits for it."""
        kernel = self._kernel(thread, call, action)
        now_ns = thread.now_ns
        launch = call if outer is None else outer.call
        kernel.launch = launch.id
        work = thread.process.device.launch(kernel, launch, now_ns, lags)
        if isinstance(action, Copy) and action.blocking:
            call.blocked_from_ns = now_ns
            self._block(thread, call, "copy", (work,), now_ns)
        elif outer is not None:
            call.end_ns = now_ns
            end_ns = now_ns + outer.around.after_ns
            self._later(
                thread, end_ns, partial(self._close, thread, outer.call, end_ns)
            )
        else:
            self._close(thread, call, now_ns)

    def _launch_graph(self, thread: _HostThread, action: GraphLaunch) -> None:
        call = self._open_call(thread, "launch", action)
        end_ns = call.start_ns + action.ns
        self._later(thread, end_ns, partial(self._submit_graph, thread, call, action))

    def _submit_graph(
        self, thread: _HostThread, call: HostEvent, action: GraphLaunch
    ) -> None:
        """Queue the kernels of a graph, and end its launch."""
        device = thread.process.device
        launch_ns = self._draw(thread, "launch_latency_ns")
        own: set[int] = set()
        for of in action.work:
            if isinstance(of, Unseen):
                device.order(of)
                continue
            undelayed, thread.own = _apart(of)
            part = cast("KernelCall", undelayed)
            queue_ns = self._draw(thread, "queue_gap_ns")
            if part.stream in own:
                queue_ns = thread.own.get("queue_gap_ns", action.gap_ns)
            own.add(part.stream)
            wait_ns = self._draw(thread, "stream_wait_ns")
            kernel = self._kernel(thread, call, part)
            late_ns = thread.own.get("launch_latency_ns", launch_ns)
            device.launch(kernel, call, thread.now_ns, Lags(late_ns, queue_ns, wait_ns))
        self._close(thread, call, thread.now_ns)

    def _kernel(
        self, thread: _HostThread, call: HostEvent, action: KernelCall
    ) -> Kernel:
        if call.correlation is None:
            raise RuntimeError("a call has a correlation")
        return Kernel(
            id=next(self.ids),
            kind=action.kind,
            name=action.kernel,
            device=thread.process.truth.device_of(action.stream),
            stream=action.stream,
            correlation=call.correlation,
            launch=call.id,
            external_id=call.external_id,
            action=action,
        )

    def _wait(self, thread: _HostThread, action: HostWait) -> None:
        call = self._open_call(thread, "wait", action)
        call.blocked_from_ns = call.start_ns
        floor_ns = call.start_ns + self._draw(thread, "sync_call_ns")
        device = thread.process.device
        match action:
            case StreamSync():
                works = device.stream(action.stream).marked()
                self._block(thread, call, "sync_stream", works, floor_ns)
            case DeviceSync():
                works = device.everything(action.device)
                self._block(thread, call, "sync_device", works, floor_ns)
            case EventSync():
                call.recorded_by = self._recorder(thread, action.event)
                works = device.marked(action.event)
                self._block(thread, call, "sync_event", works, floor_ns)

    def _block(
        self,
        thread: _HostThread,
        call: HostEvent,
        kind: EdgeKind,
        works: tuple[Work, ...],
        floor_ns: int,
    ) -> None:
        """End a call after the kernels that it waits for."""
        thread.blocked_on = call.name
        name: DelayName = "copy_return_ns" if kind == "copy" else "sync_return_ns"
        delay_ns = self._draw(thread, name)
        causes = [work.allow(kind, delay_ns) for work in works]
        self.agenda.meet(causes, floor_ns, partial(self._unblock, thread, call, causes))

    def _unblock(
        self, thread: _HostThread, call: HostEvent, causes: list[Cause], ns: int
    ) -> None:
        thread.process.truth.edges.extend(edges(causes, call.id, ns))
        self._close(thread, call, ns)

    # Threads

    def _notify(self, thread: _HostThread, action: Notify) -> None:
        flag = thread.process.flag(action.flag)
        if flag.event_time.ns is not None:
            raise ProgramError(f"flag {action.flag!r} is raised twice; name two flags")
        flag.source = thread.latest
        self.agenda.fix(flag.event_time, thread.now_ns)
        self._resume(thread, thread.now_ns)

    def _await(self, thread: _HostThread, action: Await) -> None:
        thread.blocked_on = f"{action.kind} on flag {action.flag!r}"
        flag = thread.process.flag(action.flag)
        delay_ns = self._draw(thread, "thread_switch_ns")
        rank = thread.process.truth.rank
        cause = Cause(action.kind, flag.event_time, delay_ns, None, rank)
        then = partial(self._awake, thread, action, flag, cause)
        self.agenda.meet([cause], thread.now_ns, then)

    def _awake(
        self,
        thread: _HostThread,
        action: Await,
        flag: _Flag,
        cause: Cause,
        ns: int,
    ) -> None:
        wait = ThreadWait(thread.tid, action.kind, thread.parent, thread.now_ns, ns)
        thread.process.truth.thread_waits.append(wait)
        thread.resumed.append(replace(cause, source=flag.source))
        thread.resumed_ns = ns
        self._resume(thread, ns)


def _apart(action: Action) -> tuple[Undelayed, Mapping[DelayName, int]]:
    """An action, and its own delays."""
    if isinstance(action, Delayed):
        return action.action, action.delays
    return action, {}
