"""Reduce a program to what its trace shows.

Without recorded synchronization, a trace shows a wait for an event only by the delay
that it caused: a wait that delayed nothing, or less than a microsecond, is unknown
(ARCHITECTURE.md, known limitations). The reduced program has the same trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tracedb.synthetic import (
    Annotation,
    Copy,
    Delayed,
    Delays,
    DeviceSync,
    EventRecord,
    EventSync,
    Gap,
    GeneratedTrace,
    HostEvent,
    Kernel,
    Notify,
    Op,
    OtherCall,
    Program,
    StreamSync,
    StreamWait,
    Thread,
    Truth,
    Unseen,
)
from tracedb.synthetic import program as programs
from tracedb.synthetic.program import Action

_SHOWN_NS = 1_000


def shown(program: Program, traces: list[GeneratedTrace], delays: Delays) -> Program:
    """The program with only those waits that its traces show."""
    return Program(
        tuple(
            replace(rank, threads=tuple(_Shown(trace.truth, delays).threads(rank)))
            for rank, trace in zip(program.ranks, traces, strict=True)
        )
    )


class _Shown:
    """One rank: which GPU work is visibly waited for, and by what."""

    def __init__(self, truth: Truth, delays: Delays) -> None:
        self.truth = truth
        self.delays = delays
        self.launched = {kernel.launch: kernel for kernel in truth.kernels}
        self.awaited: dict[int, int] = {}
        """The kernel that a kernel or a call visibly waited for, by id."""
        for kernel in truth.kernels:
            self._of_kernel(kernel)
        for edge in truth.edges:
            if edge.kind == "sync_event" and edge.binding:
                self.awaited[edge.target] = edge.source

    def _of_kernel(self, kernel: Kernel) -> None:
        edges = [edge for edge in self.truth.edges if edge.target == kernel.id]
        reported = [edge for edge in edges if edge.kind == "stream_wait"]
        other_ns = max(e.ready_ns for e in edges if e.kind in {"launch", "stream"})
        binding = [edge.source for edge in reported if edge.binding]
        if binding and kernel.start_ns - other_ns > _SHOWN_NS:
            self.awaited[kernel.id] = binding[-1]

    def threads(self, rank: programs.Rank) -> Iterator[Thread]:
        """Yield the threads of the rank."""
        for tid, thread in zip(self.truth.threads, rank.threads, strict=True):
            calls = iter(
                [
                    event
                    for event in self.truth.host_events
                    if event.thread == tid
                    and event.kind not in {"op", "annotation", "nested"}
                ]
            )
            yield Thread(thread.name, tuple(self._body(thread.body, calls)))

    def _body(
        self, body: tuple[Action, ...], calls: Iterator[HostEvent]
    ) -> Iterator[Action]:
        for action in body:
            if isinstance(action, Op | Annotation):
                yield replace(action, body=tuple(self._body(action.body, calls)))
            elif isinstance(action, Gap | Notify | Unseen | programs.Await | Delayed):
                yield action
            else:
                yield from self._call(action, next(calls))

    def _call(self, action: programs.Call, event: HostEvent) -> Iterator[Action]:
        kernel = self.launched.get(event.id)
        if kernel is not None:
            yield from self._launch(action, kernel)
        elif isinstance(action, StreamWait):
            yield OtherCall(action.call, self.delays.event_call_ns)
        elif isinstance(action, EventSync):
            source = self.awaited.get(event.id)
            yield EventSync("of nothing" if source is None else _event(source))
        else:
            yield action

    def _launch(self, action: programs.Call, kernel: Kernel) -> Iterator[Action]:
        source = self.awaited.get(kernel.id)
        if source is not None:
            yield Unseen(StreamWait(kernel.stream, _event(source)))
        yield action
        if kernel.id in self.awaited.values():
            yield Unseen(EventRecord(_event(kernel.id), kernel.stream))


def _event(kernel: int) -> str:
    return f"end of {kernel}"


def of_own_streams(program: Program) -> Program:
    """Let each wait be for the stream or device of the thread's last launch.

    The trace does not record which; this is what is assumed (ARCHITECTURE.md).
    """
    return Program(
        tuple(
            replace(
                rank,
                threads=tuple(
                    Thread(thread.name, tuple(_own(thread.body, [], rank.devices)))
                    for thread in rank.threads
                ),
            )
            for rank in program.ranks
        )
    )


def _own(
    body: tuple[Action, ...], streams: list[int], devices: Mapping[int, int]
) -> Iterator[Action]:
    for action in body:
        if isinstance(action, Op | Annotation):
            yield replace(action, body=tuple(_own(action.body, streams, devices)))
        elif isinstance(action, DeviceSync):
            yield DeviceSync(devices.get(streams[-1]) if streams else None)
        elif isinstance(action, StreamSync):
            yield StreamSync(streams[-1]) if streams else Gap(0)
        else:
            if isinstance(action, programs.Launch | Copy | programs.Memset):
                streams.append(action.stream)
            yield action
