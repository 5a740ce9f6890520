"""A program: what each host thread of each rank does, before anything is timed.

A program has only host gaps and kernel durations. `execute` computes all times from
these and the delays of the machine (`Delays`).

>>> main = Thread("main", (step(1, Op("aten::relu", (Gap(2000), Launch(7, 5000)))),))
>>> Program((Rank((main,)),)).ranks[0].threads[0].body[0].name
'ProfilerStep#1'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Literal

Dims = tuple[tuple[int, ...], ...]
KernelKind = Literal["kernel", "memcpy", "memset", "collective"]
Direction = Literal["HtoD", "DtoH", "DtoD"]

STEP_PREFIX = "ProfilerStep#"
DATA_PREFIX = "enumerate(DataLoader)"


class ProgramError(ValueError):
    """The program cannot be executed to its end."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Host time in which nothing is recorded: Python, or the inside of an op."""

    ns: int


@dataclass(frozen=True, slots=True)
class Op:
    """A CPU operator. Ops with one `sequence`, forward and backward, are linked."""

    name: str
    body: tuple[Action, ...] = ()
    dims: Dims = ()
    types: tuple[str, ...] = ()
    sequence: int | None = None
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Annotation:
    """A range that the user (or the profiler) marked on a thread."""

    name: str
    body: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """A call in which a launch is nested, such as the runtime's around the driver's."""

    before_ns: int
    """[ns] From its start to that of the launch."""
    after_ns: int
    """[ns] From the end of the launch to its own."""
    call: str = "cudaLaunchKernel"
    shares_correlation: bool = False
    """Whether both have one correlation."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A call that puts a kernel on a stream."""

    kind: ClassVar[KernelKind] = "kernel"
    stream: int
    kernel_ns: int
    kernel: str = "void at::native::vectorized_elementwise_kernel<4, float>(int, float)"
    call: str = "cudaLaunchKernel"
    grid: tuple[int, int, int] = (264, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    around: Around | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy; a blocking one returns when it has ended."""

    kind: ClassVar[KernelKind] = "memcpy"
    stream: int
    kernel_ns: int
    direction: Direction = "HtoD"
    size_bytes: int = 4096
    blocking: bool = False
    call: str = "cudaMemcpyAsync"

    @property
    def kernel(self) -> str:
        """The name of the GPU event; blocking copies are from or to pageable memory."""
        host = "Pageable" if self.blocking else "Pinned"
        places = {
            "HtoD": f"{host} -> Device",
            "DtoH": f"Device -> {host}",
            "DtoD": "Device -> Device",
        }
        return f"Memcpy {self.direction} ({places[self.direction]})"


@dataclass(frozen=True, slots=True)
class Memset:
    """A memset by `cudaMemsetAsync`."""

    kind: ClassVar[KernelKind] = "memset"
    call: ClassVar[str] = "cudaMemsetAsync"
    kernel: ClassVar[str] = "Memset (Device)"
    stream: int
    kernel_ns: int
    size_bytes: int = 4096


@dataclass(frozen=True, slots=True)
class Collective:
    """A NCCL kernel, launched by every rank, the n-th of a group with the n-th.

    A `message` has a group of its own: the rank that sends, and the one that receives.
    Its data move from the start of the last rank's kernel on, for the longest
    `kernel_ns`.
    """

    kind: ClassVar[KernelKind] = "collective"
    call: ClassVar[str] = "cudaLaunchKernelExC"
    grid: ClassVar[tuple[int, int, int]] = (24, 1, 1)
    block: ClassVar[tuple[int, int, int]] = (544, 1, 1)
    stream: int
    kernel_ns: int
    name: str = "allreduce"
    elements: int = 1024
    group: str = "0"
    dtype: str = "Float"
    ranks: tuple[int, ...] = ()
    """The ranks of the group, if it is not all."""
    own_ns: int | None = None
    """[ns] From the start of the last rank's kernel to the end of this one, if it does
    not end together with the others."""
    is_eager: bool = False
    """Whether its sender does not wait for the receiver: its kernel ends `kernel_ns`
    after its own start."""

    @property
    def kernel(self) -> str:
        """The name of the NCCL kernel."""
        stem = {
            "allreduce": "AllReduce_Sum_f32_RING_LL",
            "broadcast": "Broadcast_RING_LL",
            "_allgather_base": "AllGather_RING_LL",
            "_reduce_scatter_base": "ReduceScatter_Sum_f32_RING_LL",
            "all_to_all": "SendRecv",
            "message": "SendRecv",
        }[self.name]
        return f"ncclDevKernel_{stem}(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True, slots=True)
class StreamSync:
    """The host waits for all work on a stream."""

    call: ClassVar[str] = "cudaStreamSynchronize"
    stream: int


@dataclass(frozen=True, slots=True)
class DeviceSync:
    """The host waits for all work on a device, by default the rank's own."""

    call: ClassVar[str] = "cudaDeviceSynchronize"
    device: int | None = None


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Marks the work on a stream so far; an event may be recorded again."""

    call: ClassVar[str] = "cudaEventRecord"
    event: str
    stream: int


@dataclass(frozen=True, slots=True)
class StreamWait:
    """Later work on a stream waits for what the event has marked."""

    call: ClassVar[str] = "cudaStreamWaitEvent"
    stream: int
    event: str


@dataclass(frozen=True, slots=True)
class EventSync:
    """The host waits for what the event has marked."""

    call: ClassVar[str] = "cudaEventSynchronize"
    event: str


@dataclass(frozen=True, slots=True)
class OtherCall:
    """A call that neither puts work on a device nor waits."""

    call: str = "cudaGetDevice"
    ns: int = 300


@dataclass(frozen=True, slots=True)
class Unseen:
    """Has the effect of a call, but takes no time and is not in the trace."""

    call: EventRecord | StreamWait


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """A call that launches all work of a captured graph."""

    call: ClassVar[str] = "cudaGraphLaunch"
    work: tuple[Launch | Copy | Memset | Unseen | Delayed, ...]
    ns: int
    """[ns] The time of the call."""
    gap_ns: int
    """[ns] The gap between work of the graph on a stream."""


@dataclass(frozen=True, slots=True)
class Notify:
    """Raises a flag for another thread of the rank; a flag is raised once."""

    flag: str


@dataclass(frozen=True, slots=True)
class Await:
    """Waits for a flag: a `fork` starts a thread's part, a `join` ends it."""

    flag: str
    kind: Literal["fork", "join"]


@dataclass(frozen=True, slots=True)
class Delayed:
    """An action with delays of its own, by name; the others are the machine's."""

    action: KernelCall | HostWait | Await
    delays: Mapping[DelayName, int]


KernelCall = Launch | Copy | Memset | Collective
HostWait = StreamSync | DeviceSync | EventSync
PlainCall = EventRecord | StreamWait | OtherCall
Call = KernelCall | GraphLaunch | HostWait | PlainCall
Scope = Op | Annotation
Undelayed = Gap | Scope | Call | Unseen | Notify | Await
Action = Undelayed | Delayed


@dataclass(frozen=True, slots=True)
class Thread:
    """The actions of a host thread, in order."""

    name: str
    body: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Rank:
    """One process, with one device or more. The first thread is the main one."""

    threads: tuple[Thread, ...]
    devices: Mapping[int, int] = field(default_factory=dict)
    """The devices of streams that are not on the rank's own device."""


@dataclass(frozen=True, slots=True)
class Program:
    """A job of one or more ranks."""

    ranks: tuple[Rank, ...]


def step(number: int, *body: Action) -> Annotation:
    """One iteration: the profiler's step mark."""
    return Annotation(f"{STEP_PREFIX}{number}", body)


def seeded(*parts: object) -> Random:
    """Return a random generator seeded by the parts."""
    return Random("/".join(map(str, parts)))  # noqa: S311 - nothing is kept secret


DelayName = Literal[
    "launch_latency_ns",
    "launch_call_ns",
    "queue_gap_ns",
    "sync_return_ns",
    "copy_return_ns",
    "stream_wait_ns",
    "thread_switch_ns",
    "sync_call_ns",
    "event_call_ns",
]


_EARLY: tuple[DelayName, ...] = ("sync_return_ns", "copy_return_ns")
"""Delays that may be negative: calls may return before the recorded end."""


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of the machine: constants, or with jitter.

    `jitter` is one share for all delays or a share per name; a delay with share j is
    drawn evenly from [1 - j, 1 + j] times its value.
    """

    launch_latency_ns: int = 1_500
    """[ns] From the end of a launch call to the earliest start of its kernel."""
    launch_call_ns: int = 4_500
    """[ns] The launch call."""
    queue_gap_ns: int = 1_200
    """[ns] From the end of a kernel to the start of the next one on its stream."""
    sync_return_ns: int = 4_000
    """[ns] From the end of a kernel to the end of the stream, device or event wait."""
    copy_return_ns: int = 12_000
    """[ns] From the end of a blocking copy to the end of its call."""
    stream_wait_ns: int = 1_700
    """[ns] From the end of a kernel to the start of one that waits by an event."""
    thread_switch_ns: int = 15_000
    """[ns] From a flag to the resumption of the thread that waits for it."""
    sync_call_ns: int = 1_800
    """[ns] A wait call when the work is already over."""
    event_call_ns: int = 700
    """[ns] The calls `cudaEventRecord` and `cudaStreamWaitEvent`."""
    jitter: float | Mapping[DelayName, float] = 0.0

    def share(self, name: DelayName) -> float:
        """Return the share of jitter of one delay."""
        if isinstance(self.jitter, Mapping):
            return self.jitter.get(name, 0.0)
        return self.jitter

    def draw(self, name: DelayName, random: Random) -> int:
        """Return one instance of a delay; always draws once from `random`."""
        value: int = getattr(self, name)
        share = self.share(name) * (2 * random.random() - 1)
        drawn = round(value * (1 + share))
        return drawn if name in _EARLY else max(0, drawn)
