"""Write the truth of a rank as a Kineto JSON file of a recent torch profiler."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .program import (
    Action,
    Annotation,
    Collective,
    Copy,
    DeviceSync,
    EventRecord,
    EventSync,
    GraphLaunch,
    Launch,
    Memset,
    Op,
    StreamSync,
    StreamWait,
)
from .writer import Args, Lane, TimeUnit, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .truth import HostEvent, Kernel, Truth

_CBID = {
    "cudaFuncGetAttributes": 15,
    "cudaGetDevice": 17,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaEventRecord": 135,
    "cudaEventSynchronize": 137,
    "cudaEventQuery": 138,
    "cudaStreamWaitEvent": 147,
    "cudaPointerGetAttributes": 151,
    "cudaDeviceSynchronize": 165,
    "cudaDeviceGetAttribute": 200,
    "cudaLaunchKernel": 211,
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": 251,
    "cudaFuncSetAttribute": 273,
    "cuLaunchKernel": 307,
    "cudaStreamIsCapturing": 317,
    "cudaLaunchKernelExC": 430,
}
_SYNC_KIND: dict[type, str] = {
    StreamSync: "Stream Sync",
    DeviceSync: "Context Sync",
    EventSync: "Event Sync",
    StreamWait: "Stream Wait Event",
}
_FLOW_STARTS = (
    Launch,
    Copy,
    Memset,
    Collective,
    GraphLaunch,
    StreamWait,
    StreamSync,
    DeviceSync,
)
"""Calls that are the start of an `ac2g` flow; at other calls a flow ends."""

_GPU_CATEGORY = {
    "kernel": "kernel",
    "collective": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
}
_NO_STREAM = -1
_SMS = 132
_WARPS_PER_SM = 64
_H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "totalGlobalMem": 85018279936,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "numSms": _SMS,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}


@dataclass(frozen=True, slots=True)
class Form:
    """The format of the file: as recent ones (the default) or as older ones."""

    time_unit: TimeUnit = "ns_decimal"
    sync_events: bool = False
    external_id: Literal["op", "correlation"] = "op"


@dataclass(frozen=True)
class GeneratedTrace:
    """A trace of one rank with its ground truth."""

    truth: Truth

    def json_text(self, form: Form | None = None) -> str:
        """Return the text of the Kineto file."""
        return _Writer(self.truth, form or Form()).text()

    def write(self, path: Path | str, form: Form | None = None) -> Path:
        """Write the Kineto file, compressed if its name ends in `.gz`."""
        path = Path(path)
        data = self.json_text(form).encode()
        if path.suffix == ".gz":
            data = gzip.compress(data, mtime=0)
        path.write_bytes(data)
        return path


class _Writer:
    def __init__(self, truth: Truth, form: Form) -> None:
        self.truth = truth
        self.form = form
        self.writer = Writer(form.time_unit, truth.base_ns)
        self.host = {event.id: event for event in truth.host_events}
        self.kernels_of: dict[int, list[Kernel]] = defaultdict(list)
        for kernel in truth.kernels:
            self.kernels_of[kernel.launch].append(kernel)
        self.cuda_events = _numbered(
            event.action.event
            for event in truth.host_events
            if isinstance(event.action, EventRecord)
        )

    def text(self) -> str:
        """Return the file; as torch does, the base time comes after the events."""
        head = json.dumps(self._head(), indent=1).removesuffix("\n}")
        tail = json.dumps(self._tail(), indent=1).removeprefix("{\n")
        events = ",\n".join(self._events())
        return f'{head},\n "traceEvents": [\n{events}\n ],\n{tail}\n'

    def _head(self) -> Args:
        count = max(self.truth.world_size, self.truth.devices[-1] + 1)
        devices = [{"id": device, **_H100} for device in range(count)]
        head: Args = {"schemaVersion": 1, "deviceProperties": devices}
        if self.truth.world_size > 1:
            head["distributedInfo"] = self._distributed_info()
        versions = {"cuda_runtime_version": 12040, "cuda_driver_version": 12090}
        return head | versions | {"record_shapes": 1}

    def _distributed_info(self) -> Args:
        size = self.truth.world_size
        group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": size}
        group |= {"backend_config": "cuda:nccl", "ranks": list(range(size))}
        info: Args = {"backend": "nccl", "rank": self.truth.rank, "world_size": size}
        return info | {"pg_count": 1, "pg_config": [group], "nccl_version": "2.21.5"}

    def _tail(self) -> Args:
        tail: Args = {"traceName": f"rank{self.truth.rank}.json"}
        tail["displayTimeUnit"] = "ms"
        if self.form.time_unit == "ns_decimal":
            tail["baseTimeNanoseconds"] = self.truth.base_ns
        return tail

    def _events(self) -> Iterator[str]:
        yield from self._ranges()
        yield from self._forward_backward()
        for event in self.truth.host_events:
            if not isinstance(event.action, Op | Annotation):
                yield from self._call(event)
        yield from self._gpu_annotations()
        yield from self._metadata()
        yield from self._window()

    # Ops and annotations

    def _ranges(self) -> Iterator[str]:
        index = 0
        for event in self.truth.host_events:
            if isinstance(event.action, Op | Annotation):
                category = "cpu_op" if event.kind == "op" else "user_annotation"
                args = {"External id": event.external_id, "Record function id": 0}
                args |= self._scope_args(event.action) | {"Ev Idx": index}
                yield self._host_slice(category, event, args)
                index += 1

    def _scope_args(self, action: Op | Annotation) -> Args:
        if isinstance(action, Annotation):
            return {}
        args: Args = {}
        if action.sequence is not None:
            args |= {"Sequence number": action.sequence}
            args |= {"Fwd thread id": int(action.backward)}
        if action.name == "record_param_comms":
            collective = next(_collectives(action.body))
            args |= _collective_args(collective, self.truth)
        if action.dims:
            types = ["float" if dims else "Scalar" for dims in action.dims]
            args |= {"Input type": action.types or types, "Input Dims": action.dims}
        return args

    def _host_slice(self, category: str, event: HostEvent, args: Args) -> str:
        span = event.start_ns, event.end_ns
        return self.writer.slice(category, event.name, self._thread(event), span, args)

    def _thread(self, event: HostEvent) -> Lane:
        return Lane(self.truth.pid, event.thread)

    def _forward_backward(self) -> Iterator[str]:
        """Yield flows from forward ops to the backward ops of the same sequence."""
        forward, backward = (
            self._sequences(backward=False),
            self._sequences(backward=True),
        )
        pairs = sorted(forward.keys() & backward.keys())
        for number, sequence in enumerate(pairs, 1):
            start, end = forward[sequence], backward[sequence]
            lane = self._thread(start)
            yield self.writer.flow_start("fwdbwd", number, lane, start.start_ns)
            lane = self._thread(end)
            yield self.writer.flow_end("fwdbwd", number, lane, end.start_ns)

    def _sequences(self, *, backward: bool) -> dict[int, HostEvent]:
        """Return the op of each sequence; of nested ones the innermost, the last."""
        return {
            event.action.sequence: event
            for event in self.truth.host_events
            if isinstance(event.action, Op)
            and event.action.sequence is not None
            and event.action.backward == backward
        }

    # Calls and GPU work

    def _call(self, event: HostEvent) -> Iterator[str]:
        """Yield a call, its work on the device, and their flow."""
        number = event.correlation or 0
        for kernel in self.kernels_of.get(event.id, ()):
            yield from self._kernel(kernel)
        if self.form.sync_events and type(event.action) in _SYNC_KIND:
            yield from self._sync_event(event)
        driver = not event.name.startswith(("cuda", "hip"))
        args = self._external_id(event.external_id, number)
        args |= {"cbid": _CBID.get(event.name, 0), "correlation": number}
        category = "cuda_driver" if driver else "cuda_runtime"
        yield self._host_slice(category, event, args)
        starts = isinstance(event.action, _FLOW_STARTS)
        flow = self.writer.flow_start if starts else self.writer.flow_end
        yield flow("ac2g", number, self._thread(event), event.start_ns)

    def _external_id(self, op: int | None, correlation: int) -> Args:
        if self.form.external_id == "correlation":
            return {"External id": correlation}
        return {} if op is None else {"External id": op}

    def _kernel(self, kernel: Kernel) -> Iterator[str]:
        lane = Lane(kernel.device, kernel.stream)
        span = kernel.start_ns, kernel.end_ns
        args = self._external_id(kernel.external_id, kernel.correlation)
        args |= _device_args(kernel) | self._work_args(kernel)
        category = _GPU_CATEGORY[kernel.kind]
        yield self.writer.slice(category, kernel.name, lane, span, args)
        yield self.writer.flow_end("ac2g", kernel.correlation, lane, kernel.start_ns)

    def _work_args(self, kernel: Kernel) -> Args:
        action = kernel.action
        if isinstance(action, Copy | Memset):
            return _bandwidth(action.size_bytes, kernel.end_ns - kernel.start_ns)
        args = _occupancy(action.grid, action.block)
        if isinstance(action, Collective):
            args |= _collective_args(action, self.truth)
        return args

    def _sync_event(self, event: HostEvent) -> Iterator[str]:
        stream = getattr(event.action, "stream", _NO_STREAM)
        kind = _SYNC_KIND[type(event.action)]
        number = event.correlation or 0
        args = self._external_id(event.external_id, number)
        args |= {"cuda_sync_kind": kind} | self._waited_for(event)
        args |= {"stream": stream, "correlation": number}
        device = getattr(event.action, "device", None)
        if device is None:
            device = self.truth.device_of(stream)
        args |= {"device": device, "context": 1}
        lane = Lane(device, stream)
        span = event.start_ns, event.end_ns
        yield self.writer.slice("cuda_sync", kind, lane, span, args)
        yield self.writer.flow_end("ac2g", number, lane, event.start_ns)

    def _waited_for(self, event: HostEvent) -> Args:
        """Return which event on which stream a wait for an event refers to."""
        if not isinstance(event.action, EventSync | StreamWait):
            return {}
        args = {"wait_on_stream": _NO_STREAM, "wait_on_cuda_event_record_corr_id": 0}
        record = self.host.get(event.recorded_by or 0)
        if record is not None and isinstance(record.action, EventRecord):
            args["wait_on_stream"] = record.action.stream
            args["wait_on_cuda_event_record_corr_id"] = record.correlation or 0
        number = self.cuda_events.get(event.action.event, 0)
        return args | {"wait_on_cuda_event_id": number}

    def _gpu_annotations(self) -> Iterator[str]:
        """Yield what each annotation, innermost of a launch, spans on each stream."""
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        for kernel in self.truth.kernels:
            if (annotation := self._annotation(kernel.launch)) is not None:
                key = annotation.id, kernel.stream
                start_ns, end_ns = spans.get(key, (kernel.start_ns, kernel.end_ns))
                end_ns = max(end_ns, kernel.end_ns)
                spans[key] = min(start_ns, kernel.start_ns), end_ns
        for (number, stream), span in sorted(spans.items()):
            event = self.host[number]
            lane = Lane(self.truth.device_of(stream), stream)
            args = {"External id": event.external_id}
            yield self.writer.slice("gpu_user_annotation", event.name, lane, span, args)

    def _annotation(self, number: int) -> HostEvent | None:
        """Return the innermost annotation around a host event."""
        event: HostEvent | None = self.host[number]
        while event is not None and event.kind != "annotation":
            event = None if event.parent is None else self.host[event.parent]
        return event

    # The frame of the file

    def _metadata(self) -> Iterator[str]:
        pid = self.truth.pid
        yield from self._process(pid, "CPU", pid)
        for device in self.truth.devices:
            yield from self._process(device, f"GPU {device}", 5_000_000 + device)
        for stream in sorted({kernel.stream for kernel in self.truth.kernels}):
            lane = Lane(self.truth.device_of(stream), stream)
            yield from self._lane(lane, f"stream {stream} ", stream)
        for device in self.truth.devices if self.form.sync_events else ():
            lane = Lane(device, _NO_STREAM)
            yield from self._lane(lane, f"Device {device}", _NO_STREAM)
        for tid, name in self.truth.threads.items():
            label = f"thread {tid} ({_THREAD_NAME.get(name, 'python3')})"
            yield from self._lane(Lane(pid, tid), label, tid)

    def _process(self, pid: int, label: str, index: int) -> Iterator[str]:
        lane = Lane(pid, 0)
        yield self._about("process_name", lane, {"name": "python3"})
        yield self._about("process_labels", lane, {"labels": label})
        yield self._about("process_sort_index", lane, {"sort_index": index})

    def _lane(self, lane: Lane, name: str, index: int) -> Iterator[str]:
        yield self._about("thread_name", lane, {"name": name})
        yield self._about("thread_sort_index", lane, {"sort_index": index})

    def _about(self, name: str, lane: Lane, args: Args) -> str:
        return self.writer.metadata(name, lane, self._first_ns, args)

    @property
    def _first_ns(self) -> int:
        return min((event.start_ns for event in self.truth.host_events[:1]), default=0)

    @property
    def _last_ns(self) -> int:
        ends = [event.end_ns for event in self.truth.host_events]
        ends += [kernel.end_ns for kernel in self.truth.kernels]
        return max(ends, default=self._first_ns)

    def _window(self) -> Iterator[str]:
        """Yield the profiler's events about its own recording."""
        span = self._first_ns, self._last_ns
        spans = Lane("Spans", "PyTorch Profiler")
        name = "PyTorch Profiler (0)"
        yield self.writer.slice("Trace", name, spans, span, {"Op count": 0})
        yield self._about("process_sort_index", Lane("Spans", 0), _SPANS_SORT_INDEX)
        traces = Lane("Traces", "Trace PyTorch Profiler")
        name = "Iteration Start: PyTorch Profiler"
        yield self.writer.instant(name, traces, span[0])
        yield self.writer.instant("Record Window End", Lane("", ""), span[1])


_THREAD_NAME = {"autograd": "pt_autograd_0"}
_SPANS_SORT_INDEX: Args = {"sort_index": 536_870_912}


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Return a number from 1 for every name, in order of first use."""
    return {name: number for number, name in enumerate(dict.fromkeys(names), 1)}


def _collectives(body: tuple[Action, ...]) -> Iterator[Collective]:
    for action in body:
        if isinstance(action, Collective):
            yield action
        elif isinstance(action, Op | Annotation):
            yield from _collectives(action.body)


def _collective_args(action: Collective, truth: Truth) -> Args:
    """Return the arguments of both op and kernel of a collective, or of a message."""
    ranks = action.ranks or range(truth.world_size)
    name, ends = action.name, {}
    if name == "message":
        sends = truth.rank == ranks[0]
        name = "send" if sends else "recv"
        ends = {"Dst Rank": ranks[1]} if sends else {"Src Rank": ranks[0]}
    return ends | {
        "Collective name": name,
        "In msg nelems": action.elements,
        "Out msg nelems": action.elements,
        "Group size": len(ranks),
        "dtype": action.dtype,
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": action.group,
        "Process Group Description": "default_pg",
        "Process Group Ranks": json.dumps(list(ranks)),
    }


def _device_args(kernel: Kernel) -> Args:
    args: Args = {"device": kernel.device, "context": 1, "stream": kernel.stream}
    return {"queued": 0, **args, "correlation": kernel.correlation}


def _bandwidth(size_bytes: int, duration_ns: int) -> Args:
    share = size_bytes / duration_ns if duration_ns else 0.0
    return {"bytes": size_bytes, "memory bandwidth (GB/s)": share}


def _occupancy(grid: tuple[int, int, int], block: tuple[int, int, int]) -> Args:
    blocks = prod(grid) / _SMS
    warps = blocks * prod(block) / 32
    return {
        "registers per thread": 32,
        "shared memory": 0,
        "blocks per SM": round(blocks, 6),
        "warps per SM": round(warps, 6),
        "grid": grid,
        "block": block,
        "est. achieved occupancy %": min(100, round(100 * warps / _WARPS_PER_SM)),
    }
