"""One program's traces in the dialects of other files: other names, orders and numbers.

A dialect takes the traces of a run, as decoded JSON, and returns what another profiler,
version or tool would have written of the same program.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from tracedb.synthetic import Delays, Form, Program, execute

Event = dict[str, Any]
Trace = dict[str, Any]
Dialect = Callable[[list[Trace]], list[Trace]]

DIALECTS: dict[str, Dialect] = {}
"""Dialects by name, each of which changes no answer."""

GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")

_encode = msgspec.json.Encoder(decimal_format="number").encode


def traces_of(program: Program, seed: int, form: Form | None = None) -> list[Trace]:
    """The traces of a program's ranks, with exact times."""
    return [
        json.loads(trace.json_text(form), parse_float=Decimal)
        for trace in execute(program, Delays(jitter=0.2), seed)
    ]


def text_of(trace: Trace) -> bytes:
    """The text of a trace, with exact times."""
    return _encode(trace)


def dialect(name: str) -> Callable[[Dialect], Dialect]:
    """Register a dialect of whole runs."""

    def register(written: Dialect) -> Dialect:
        DIALECTS[name] = written
        return written

    return register


def by_event(name: str) -> Callable[[Callable[[Event], Event | None]], Any]:
    """Register a dialect that changes each event on its own, or leaves it out."""

    def register(changed: Callable[[Event], Event | None]) -> Any:  # noqa: ANN401
        DIALECTS[name] = lambda traces: [
            trace | {"traceEvents": list(_kept(map(changed, trace["traceEvents"])))}
            for trace in traces
        ]
        return changed

    return register


def _kept(events: Iterable[Event | None]) -> Iterator[Event]:
    yield from (event for event in events if event is not None)


def by_list(name: str) -> Callable[[Callable[[list[Event]], list[Event]]], Any]:
    """Register a dialect that changes the list of events of each trace."""

    def register(changed: Callable[[list[Event]], list[Event]]) -> Any:  # noqa: ANN401
        DIALECTS[name] = lambda traces: [
            trace | {"traceEvents": changed(trace["traceEvents"])} for trace in traces
        ]
        return changed

    return register


def cat(event: Event) -> str:
    """The category of an event."""
    return str(event.get("cat", ""))


def with_args(event: Event, **changed: Any) -> Event:  # noqa: ANN401
    """The event with some other arguments."""
    return event | {"args": event.get("args", {}) | changed}


def without_args(event: Event, *names: str) -> Event:
    """The event without some arguments."""
    args = {k: v for k, v in event.get("args", {}).items() if k not in names}
    return event | {"args": args}


def _numbered(event: Event, renumber: Callable[[int], int], *names: str) -> Event:
    """The event with other numbers in some arguments."""
    args = event.get("args", {})
    return with_args(event, **{n: renumber(args[n]) for n in names if n in args})


# ---- Order and form of the file


@by_list("events in reverse")
def _reversed(events: list[Event]) -> list[Event]:
    return events[::-1]


@by_list("events shuffled")
def _shuffled(events: list[Event]) -> list[Event]:
    return random.Random(5).sample(events, len(events))  # noqa: S311


@by_list("metadata first")
def _metadata_first(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event["ph"] != "M")


@by_event("without metadata")
def _no_metadata(event: Event) -> Event | None:
    return None if event["ph"] == "M" else event


@by_event("without flows")
def _no_flows(event: Event) -> Event | None:
    return None if cat(event) == "ac2g" else event


@by_event("flows numbered as text")
def _text_flows(event: Event) -> Event:
    return event | {"id": f"0x{event['id']:x}"} if "id" in event else event


@by_list("flows renumbered")
def _renumbered_flows(events: list[Event]) -> list[Event]:
    return [e | {"id": 7 * e["id"] + (1 << 40)} if "id" in e else e for e in events]


@by_list("begins and ends")
def _begins_and_ends(events: list[Event]) -> list[Event]:
    """Slices in pairs, in order of time, inner ends first."""
    bounds: list[tuple[Any, Event]] = []
    others = []
    for number, event in enumerate(events):
        if event["ph"] != "X":
            others.append(event)
            continue
        start, end = event["ts"], event["ts"] + event["dur"]
        begin = {k: v for k, v in event.items() if k != "dur"} | {"ph": "B"}
        close = {k: event[k] for k in ("name", "pid", "tid")} | {"ph": "E", "ts": end}
        empty = start == end
        bounds.append(((start, 1 if empty else 2, -end, number, 0), begin))
        bounds.append(((end, 1 if empty else 0, -start, -number, 1), close))
    return others + [event for _, event in sorted(bounds, key=lambda pair: pair[0])]


@by_event("numbers as text")
def _text_numbers(event: Event) -> Event:
    args = {
        k: str(v) if isinstance(v, int) else v for k, v in event.get("args", {}).items()
    }
    changed = event | {"pid": str(event["pid"]), "tid": str(event["tid"])}
    return changed | ({"args": args} if args else {})


@by_event("times as text")
def _text_times(event: Event) -> Event:
    return event | {k: str(event[k]) for k in ("ts", "dur") if k in event}


@dialect("times since 1970")
def _absolute(traces: list[Trace]) -> list[Trace]:
    """Without a base: times in microseconds since 1970 beyond what doubles hold."""
    changed = []
    for trace in traces:
        base = Decimal(trace["baseTimeNanoseconds"]) / 1000
        events = [
            e | {"ts": e["ts"] + base} if "ts" in e else e for e in trace["traceEvents"]
        ]
        head = {k: v for k, v in trace.items() if k != "baseTimeNanoseconds"}
        changed.append(head | {"traceEvents": events})
    return changed


@dialect("times before 0")
def _before_zero(traces: list[Trace]) -> list[Trace]:
    """The base is the end of the trace, so to say."""
    day = 86_400_000_000
    changed = []
    for trace in traces:
        base = trace["baseTimeNanoseconds"] + 100 * day * 1000
        events = [
            e | {"ts": e["ts"] - 100 * day} if "ts" in e else e
            for e in trace["traceEvents"]
        ]
        changed.append(trace | {"traceEvents": events, "baseTimeNanoseconds": base})
    return changed


@by_event("times with an exponent")
def _exponents(event: Event) -> Event:
    times = {k: event[k] for k in ("ts", "dur") if k in event}
    return event | {
        k: msgspec.Raw(f"{v * 1000:f}E-3".encode()) for k, v in times.items()
    }


@by_event("more digits of times")
def _digits(event: Event) -> Event:
    times = {k: event[k] for k in ("ts", "dur") if k in event}
    return event | {k: msgspec.Raw(f"{v:f}0000".encode()) for k, v in times.items()}


@dialect("a base as text")
def _base_as_text(traces: list[Trace]) -> list[Trace]:
    name = "baseTimeNanoseconds"
    return [trace | {name: str(trace[name])} for trace in traces]


@dialect("ranks as text")
def _ranks_as_text(traces: list[Trace]) -> list[Trace]:
    name = "distributedInfo"
    return [
        trace | {name: {k: str(v) for k, v in trace[name].items()}} for trace in traces
    ]


@dialect("displayed in ns")
def _displayed(traces: list[Trace]) -> list[Trace]:
    return [trace | {"displayTimeUnit": "ns"} for trace in traces]


@by_list("other phases beside")
def _other_phases(events: list[Event]) -> list[Event]:
    """Counters, objects, samples, instants and asynchronous ranges on all lanes."""
    lanes = {(e["pid"], e["tid"]): e for e in events if e["ph"] == "X"}.values()
    others = [
        {
            "ph": phase,
            "cat": cat(e),
            "name": e["name"],
            "pid": e["pid"],
            "tid": e["tid"],
        }
        | {"ts": e["ts"], "id": 7, "args": {"value": 3}}
        for e in lanes
        for phase in "CbenNODPiIvRc"
    ]
    return others + events


@by_list("Python frames beside")
def _frames(events: list[Event]) -> list[Event]:
    """A Python function around each op, and modules."""
    frames = []
    for event in events:
        if cat(event) == "cpu_op":
            name = "train.py(12): forward"
            frames.append(event | {"cat": "python_function", "name": name, "args": {}})
    return frames + events


@by_list("profiler's own events beside")
def _own_events(events: list[Event]) -> list[Event]:
    own: list[Event] = []
    for event in events:
        if cat(event) in GPU and event["ts"] % 2 < 1:
            kinds = ("cuda_event", "gpu_user_annotation", "mtia_counters")
            own += [event | {"cat": kind, "name": "x"} for kind in kinds]
    return own + events


@by_event("no arguments but null")
def _null_args(event: Event) -> Event:
    return event if "args" in event else event | {"args": None}


# ---- Processes, threads, devices and streams


@by_event("threads of no name")
def _no_names(event: Event) -> Event:
    if event["ph"] == "M" and event["name"] in ("thread_name", "process_name"):
        return with_args(event, name="")
    return event


@by_event("threads of one name")
def _one_name(event: Event) -> Event:
    if event["ph"] == "M" and event["name"] in ("thread_name", "process_name"):
        return with_args(event, name="Hauptprozeß „python“ \"'; -- 主线程")
    return event


@by_event("threads named in the event")
def _named_threads(event: Event) -> Event:
    if event["pid"] in (0, 1):
        return event
    return event | {
        "pid": f"python3 {event['pid']}",
        "tid": f"thread {event['tid']} (python3)",
    }


@by_event("streams named in the event")
def _named_streams(event: Event) -> Event:
    if cat(event) in (*GPU, "gpu_user_annotation"):
        return event | {"tid": f"stream {event['tid']}"}
    return event


@by_event("work of CUDA graphs in one lane")
def _one_lane(event: Event) -> Event:
    """Where PyTorch moves what a graph runs; it keeps the stream beside it."""
    if cat(event) not in GPU or "stream" not in event["args"]:
        return event
    moved = with_args(event, stream=7, original_stream=event["args"]["stream"])
    return moved | {"tid": 7}


@by_event("streams only in the lane")
def _lane_only(event: Event) -> Event:
    return without_args(event, "stream") if cat(event) in GPU else event


@by_event("devices only in the lane")
def _device_in_lane(event: Event) -> Event:
    return without_args(event, "device") if cat(event) in GPU else event


@by_event("devices named in the lane")
def _named_device(event: Event) -> Event:
    if cat(event) not in GPU:
        return event
    return without_args(event | {"pid": f"GPU {event['pid']}"}, "device")


@by_event("other numbers of streams")
def _other_streams(event: Event) -> Event:
    if cat(event) in GPU:
        event = event | {"tid": event["tid"] * 1_000_003}
    return _numbered(
        event, lambda stream: stream * 1_000_003, "stream", "wait_on_stream"
    )


@by_event("another device")
def _other_device(event: Event) -> Event:
    if cat(event) in GPU:
        event = event | {"pid": event["pid"] + 5}
    return _numbered(event, lambda device: device + 5, "device")


@by_event("negative numbers of threads")
def _negative_threads(event: Event) -> Event:
    if cat(event) in GPU or not isinstance(event["tid"], int):
        return event
    return event | {"tid": event["tid"] - (1 << 31)}


# ---- Correlations and ids


@by_event("other correlations")
def _other_correlations(event: Event) -> Event:
    names = ("correlation", "wait_on_cuda_event_record_corr_id")
    return _numbered(event, lambda number: number + (1 << 33), *names)


@by_event("without external ids")
def _no_external_ids(event: Event) -> Event:
    return without_args(event, "External id") if "args" in event else event


@by_event("external ids of small letters")
def _small_external_ids(event: Event) -> Event:
    if "External id" not in event.get("args", {}):
        return event
    number = event["args"]["External id"]
    return with_args(without_args(event, "External id"), **{"external id": number})


# ---- Kinds of events


def _renamed(cats: dict[str, str], names: dict[str, str]) -> Callable[[Event], Event]:
    def changed(event: Event) -> Event:
        name = str(event.get("name", ""))
        new = names.get(name, name) if cat(event) in CALLS else name
        return event | {"cat": cats.get(cat(event), cat(event)), "name": new}

    return changed


HIP = {
    "cudaLaunchKernel": "hipExtModuleLaunchKernel",
    "cuLaunchKernel": "hipModuleLaunchKernel",
    "cudaMemcpyAsync": "hipMemcpyWithStream",
    "cudaMemsetAsync": "hipMemsetAsync",
    "cudaStreamSynchronize": "hipStreamSynchronize",
    "cudaDeviceSynchronize": "hipDeviceSynchronize",
    "cudaEventSynchronize": "hipEventSynchronize",
    "cudaStreamWaitEvent": "hipStreamWaitEvent",
    "cudaEventRecord": "hipEventRecord",
    "cudaLaunchKernelExC": "hipLaunchKernelExC",
}
DRIVER = {
    "cudaLaunchKernel": "cuLaunchKernelEx",
    "cuLaunchKernel": "cuLaunchKernel_ptsz",
    "cudaLaunchKernelExC": "cuLaunchCooperativeKernel",
    "cudaMemcpyAsync": "cuMemcpyAsync_ptsz",
    "cudaMemsetAsync": "cuMemsetD32Async",
    "cudaStreamSynchronize": "cuStreamSynchronize",
    "cudaDeviceSynchronize": "cuCtxSynchronize",
    "cudaEventSynchronize": "cuEventSynchronize",
    "cudaStreamWaitEvent": "cuStreamWaitEvent_ptsz",
    "cudaEventRecord": "cuEventRecord",
}
by_event("hip")(_renamed({"cuda_driver": "cuda_runtime"}, HIP))
by_event("hip_runtime")(_renamed(dict.fromkeys(CALLS, "hip_runtime"), HIP))
by_event("driver")(_renamed({"cuda_runtime": "cuda_driver"}, DRIVER))
by_event("privateuse1")(_renamed(dict.fromkeys(CALLS, "privateuse1_driver"), {}))
by_event("glow_runtime")(_renamed(dict.fromkeys(CALLS, "glow_runtime"), {}))
by_event("mtia_runtime")(_renamed(dict.fromkeys(CALLS, "mtia_runtime"), {}))
by_event("Kernel, Memcpy, Memset, Runtime, Operator")(
    _renamed(
        dict(zip(GPU, ("Kernel", "Memcpy", "Memset"), strict=True))
        | {"cpu_op": "Operator", "cuda_runtime": "Runtime", "cuda_driver": "Runtime"},
        {},
    )
)


@by_event("ranges recorded as ops")
def _ranges_as_ops(event: Event) -> Event:
    return event | {"cat": "cpu_op"} if cat(event) == "user_annotation" else event


# ---- Names


@by_event("kernels renamed")
def _renamed_kernels(event: Event) -> Event:
    if cat(event) == "kernel" and "Collective name" not in event["args"]:
        return event | {"name": "k\"'\\ émoji 🚀; DROP TABLE"}
    return event


def _nccl(name: str) -> Callable[[Event], Event]:
    def changed(event: Event) -> Event:
        if cat(event) == "kernel" and event["name"].startswith("nccl"):
            what = "AllReduce" if "AllReduce" in event["name"] else "SendRecv"
            return event | {"name": name.replace("AllReduce", what)}
        return event

    return changed


by_event("nccl of 2020")(_nccl("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"))
by_event("nccl of 2025")(
    _nccl("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)")
)
by_event("symmetric nccl")(_nccl("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32"))
