"""The ground truth of an execution: what happened when, and why.

Ids are unique over all ranks of a job, so that an edge may come from another rank.
All times are absolute, in nanoseconds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from .partition import OVERHEAD_TYPES, Interval, OverheadType, partition
from .program import DATA_PREFIX, STEP_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .program import Call, KernelCall, KernelKind, Scope

HostKind = Literal["op", "annotation", "launch", "nested", "wait", "other"]
EdgeKind = Literal[
    "launch",
    "stream",
    "stream_wait",
    "collective",
    "sync_stream",
    "sync_device",
    "sync_event",
    "copy",
    "fork",
    "join",
]


@dataclass(slots=True)
class HostEvent:
    """An op, an annotation or a call on a host thread; `nested` is within a launch."""

    id: int
    kind: HostKind
    name: str
    thread: int
    start_ns: int
    parent: int | None
    """The op or annotation that encloses it."""
    external_id: int | None
    """Its own for an op or annotation; for a call, that of the innermost op around."""
    action: Call | Scope
    correlation: int | None = None
    end_ns: int = -1
    blocked_from_ns: int | None = None
    """[ns] From here to its end the host is blocked: a wait, or a blocking copy."""
    recorded_by: int | None = None
    """The `cudaEventRecord` that this wait for an event refers to."""

    @property
    def step(self) -> int | None:
        """The number of the step that it marks, if any."""
        if self.kind != "annotation" or not self.name.startswith(STEP_PREFIX):
            return None
        return int(self.name.removeprefix(STEP_PREFIX))

    @property
    def loads_data(self) -> bool:
        """Whether it is a range that fetches a batch."""
        return self.kind == "annotation" and self.name.startswith(DATA_PREFIX)


@dataclass(slots=True)
class Kernel:
    """GPU work: a kernel, memcpy, memset or collective."""

    id: int
    kind: KernelKind
    name: str
    device: int
    stream: int
    correlation: int
    launch: int
    """The id of its launch."""
    external_id: int | None
    action: KernelCall
    start_ns: int = -1
    end_ns: int = -1


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency: the source had to happen before the target.

    | kind | source | target | `ready_ns` bounds |
    | --- | --- | --- | --- |
    | launch | launch | kernel | the kernel's start |
    | stream | previous kernel on the stream | kernel | its start |
    | stream_wait | kernel that an event marked | kernel | its start |
    | collective | kernel of another rank | kernel | its end |
    | sync_stream, sync_device, sync_event | kernel | wait | the wait's end |
    | copy | kernel (the copy) | its launch | the launch's end |
    | fork, join | last op or call before | first op or call after | its start |
    """

    kind: EdgeKind
    source: int
    target: int
    source_rank: int
    ready_ns: int
    """[ns] The earliest time of the target that this edge allows."""
    binding: bool
    """Whether this edge determined the time of the target."""


@dataclass(frozen=True, slots=True)
class ThreadWait:
    """Time in which a thread was blocked until another raised a flag."""

    thread: int
    kind: Literal["fork", "join"]
    parent: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration: its mark on the host thread."""

    number: int
    thread: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """The time of the step."""
        return self.end_ns - self.start_ns


@dataclass
class Truth:
    """What happened on one rank."""

    rank: int
    world_size: int
    device: int
    pid: int
    base_ns: int
    threads: dict[int, str]
    """Thread id to name; the first one is the main thread."""
    stream_devices: Mapping[int, int] = field(default_factory=dict)
    """The devices of streams that are not on the rank's own device."""
    host_events: list[HostEvent] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    thread_waits: list[ThreadWait] = field(default_factory=list)

    @cached_property
    def by_id(self) -> dict[int, HostEvent | Kernel]:
        """Every event of this rank by its id."""
        host: dict[int, HostEvent | Kernel] = {e.id: e for e in self.host_events}
        return host | {kernel.id: kernel for kernel in self.kernels}

    @cached_property
    def steps(self) -> list[Step]:
        """The steps, in order of time."""
        return [
            Step(event.step, event.thread, event.start_ns, event.end_ns)
            for event in self.host_events
            if event.step is not None
        ]

    @cached_property
    def intervals(self) -> list[Interval]:
        """The intervals of every host thread by step, which tile the steps."""
        return partition(self)

    @cached_property
    def overheads(self) -> dict[tuple[int, int], dict[OverheadType, int]]:
        """[ns] The time of each type by (step number, thread id); all types present."""
        totals: dict[tuple[int, int], dict[OverheadType, int]] = defaultdict(
            lambda: dict.fromkeys(OVERHEAD_TYPES, 0)
        )
        for part in self.intervals:
            totals[part.step, part.thread][part.type] += part.end_ns - part.start_ns
        return dict(totals)

    def device_of(self, stream: int) -> int:
        """Return the device that a stream is on."""
        return self.stream_devices.get(stream, self.device)

    @property
    def devices(self) -> list[int]:
        """The devices that the rank uses."""
        return sorted({self.device, *self.stream_devices.values()})

    @property
    def launches(self) -> list[HostEvent]:
        """The calls that put work on the device."""
        return [event for event in self.host_events if event.kind == "launch"]
