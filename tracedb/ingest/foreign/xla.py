"""Read recordings of JAX and TensorFlow: `.xplane.pb`, and `.trace.json` made from it.

Both tell of the same planes. Events of the host become ops, functions of Python, and
calls of the runtime, of which those that launch kernels have the kernels' names;
`StepTraceAnnotation` marks steps. Of a device, the lines named `Stream` hold its work,
which call it by its correlation; those of a TPU, which has no streams, are `XLA Ops`.
Other lines of a device repeat this, grouped in other ways: they become ranges on the
GPU.
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest.decompress import Text
from tracedb.ingest.foreign import xplane
from tracedb.ingest.foreign.event import (
    Event,
    ForeignTrace,
    batched,
    copy_name,
    integer,
    metadata,
    present,
)
from tracedb.ingest.foreign.xplane import Line, Plane, Span
from tracedb.protobuf import BrokenError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from tracedb.ingest.foreign.event import Row

__all__ = ["ENDINGS", "TOOL", "is_repeated", "read", "recognises"]

ENDINGS = (".xplane.pb",)
TOOL = "XLA profiler"

_OF_JSON = (".trace.json.gz", "perfetto_trace.json.gz", ".trace.json")
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 1 << 12
_FIRST_PROCESS = re.compile(
    rb'"process_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"([^"\s]+ )?/(host|device):'
)
_DEVICE = re.compile(r"/device:(?P<kind>[A-Za-z_]+):(?P<number>\d+)")
_HOST = re.compile(r"/host:(?!metadata)")
_STREAM = re.compile(r"Stream #(\d+)")
_OPS = re.compile(r"XLA (Async )?Ops\b", re.IGNORECASE)
_CALL = re.compile(r"(?P<driver>cu)[A-Z]|(cuda|hip)[A-Z]")
# Where a thread waits for a result; see `staging.call_kind` and `staging.step_mark`.
_WAIT = re.compile(
    r"(.*::)?(Await|Block(Host)?UntilReady)|np\.asarray\(jax\.Array\)"
    r"|Wait(:| for) .*|.*\(wait for .*\)"
)
# Where TensorFlow fetches a batch; see `staging.data_loading`.
_LOADING = "IteratorGetNextOp::DoCompute"
# How XLA marks that a computation on another thread has ended.
_ENDED = "end: "
_PYTHON = re.compile(
    r"\$(?:(?P<file>.+\.pyx?):(?P<line>\d+) )?(?P<function>.*)", re.DOTALL
)
# `MemcpyH2D`, `CopyHostToDevice`, `MEMORY_COPY_HOST_TO_DEVICE`.
_COPY = re.compile(
    r"(?:Mem|MEMORY_)?co?py[\s_]?([HDP])(?:ost|evice|eer)?(?:2|_?to_?)([HDP])",
    re.IGNORECASE,
)
_NO_WORK = re.compile(
    r"Memory(Alloc|Free|Residency)|Host(Unr|R)egister|UnifiedMemory|UM_.*|Overhead"
)
_NO_WORK_DETAILS = ("memalloc_details", "memfree_details", "memory_residency_details")
_DETAIL = re.compile(r"(\w+):([\w.,-]+)")
_COLLECTIVE = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    r"|collective-broadcast)\b"
)
# What the profiler calls itself or its facts, and Kineto's names.
_DEVICE_PROPERTIES = {
    "memory_size": "totalGlobalMem",
    "core_count": "numSms",
    "compute_cap_major": "computeMajor",
    "compute_cap_minor": "computeMinor",
}
# [ns] Times since a recording started are shorter, those of the day are longer.
_ABSOLUTE_NS = 10**17


class _Calls(NamedTuple):
    """What calls of the runtime are whose events do not tell it."""

    waiting: str
    """The category where the host waits, so that no op runs: with devices a call that
    waits for one, without them a range, whose end another thread can wait for."""
    launch: tuple[str, str]
    """Category and name of a call that has the name of the kernel it launches."""


_CUDA_LAUNCH = "cuda_driver", "cuLaunchKernel"
_HIP_LAUNCH = "cuda_runtime", "hipLaunchKernel"


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is one, by name or first process; see `ForeignReader`."""
    if path.name.endswith(ENDINGS):
        return True
    if not head.startswith((_GZIP, b"{")):
        return False
    try:
        with path.open("rb") as file:
            return bool(_FIRST_PROCESS.search(_start(path, file)))
    except (OSError, IngestError):
        return False


def is_repeated(path: Path) -> bool:
    """Whether it repeats an `.xplane.pb` beside it: JAX writes up to three files."""
    if not path.name.endswith(_OF_JSON) or not any(path.parent.glob("*.xplane.pb")):
        return False
    return recognises(path, _GZIP)


def read(path: Path) -> ForeignTrace:
    """Read a recording; see `ForeignReader`."""
    issues: Counter[str] = Counter()
    is_space = path.name.endswith(ENDINGS)
    with _refusing(path):
        found = (
            list(xplane.planes(path.read_bytes(), issues))
            if is_space
            else _of_json(path, issues)
        )
    if not any(len(line.spans) for plane in found for line in plane.lines):
        raise ForeignFileError(f"{path}: no events in this recording of XLA's profiler")
    base = _base(found)
    events = _events(found, base)
    return ForeignTrace(_header(found, base), _batches(path, events), issues)


def _batches(path: Path, events: Iterator[Event]) -> Iterator[pa.Table]:
    with _refusing(path):
        yield from batched(events)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Raise `IngestError` where the file turns out to be broken."""
    try:
        yield
    except IngestError:
        raise
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error.strerror}") from error
    except (BrokenError, struct.error, RecursionError) as error:
        raise IngestError(
            f"{path}: {error}; the file is truncated or broken, record it again"
        ) from error
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise IngestError(
            f"{path}: a field has an unexpected type ({error}); the file is truncated "
            "or broken, record it again"
        ) from error


def _start(path: Path, file: IO[bytes]) -> bytes:
    return next(Text(str(path), file).blocks(), b"")[:_HEAD_BYTES]


def _of_json(path: Path, issues: Counter[str]) -> list[Plane]:
    with path.open("rb") as file:
        text = Text(str(path), file)
        data = b"".join(text.blocks())
    if text.damage:
        raise BrokenError(text.damage)
    try:
        events = msgspec.json.decode(data)["traceEvents"]
    except (msgspec.DecodeError, KeyError) as error:
        raise BrokenError(f"not a JSON object with traceEvents ({error})") from error
    return _planes([event for event in events if isinstance(event, dict)], issues)


def _planes(events: list[Row], issues: Counter[str]) -> list[Plane]:
    """The planes of which JSON's processes are made, and lines of its threads."""
    names: dict[tuple[object, object], str] = {}
    spans: dict[object, dict[object, list[Span]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for event in events:
        pid, tid, args = event.get("pid"), event.get("tid"), event.get("args")
        args = dict(args) if isinstance(args, dict) else {}
        if event.get("ph") == "M":
            if event.get("name") in ("process_name", "thread_name"):
                is_thread = event["name"] == "thread_name"
                names[pid, tid if is_thread else None] = str(args.get("name"))
        elif event.get("ph") == "X" and isinstance(event.get("ts"), (int, float)):
            spans[pid][tid].append(_json_span(event, args))
        elif event:
            issues["left out: events that are neither spans nor names"] += 1
    return [
        Plane(
            integer(pid) or 0,
            names.get((pid, None), ""),
            [
                Line(integer(tid) or 0, names.get((pid, tid), ""), 0, found)
                for tid, found in lines.items()
            ],
            {},
        )
        for pid, lines in spans.items()
    ]


def _json_span(event: Row, args: Row) -> Span:
    start, dur = float(event["ts"]), event.get("dur")
    dur = float(dur) if isinstance(dur, (int, float)) else 0.0
    start_ns, end_ns = (int(round(us * 1e6) // 1_000) for us in (start, start + dur))
    return Span(str(event.get("name", "")), start_ns, (end_ns - start_ns) or None, args)


def _base(found: list[Plane]) -> int:
    """[ns] When the recording started, if times are absolute, as they were once."""
    begins = [line.begin_ns for plane in found for line in plane.lines]
    return min(begins) if min(begins) > _ABSOLUTE_NS else 0


def _header(found: list[Plane], base: int) -> Row:
    facts = _facts(found)
    started = integer(facts.get("profile_start_time")) or 0
    devices = [(plane, named) for plane in found if (named := _device_of(plane))]
    return {
        "source": {"tool": TOOL, "export": facts},
        "deviceProperties": [_device(plane, named) for plane, named in devices],
        "baseTimeNanoseconds": base or started,
    }


def _facts(found: list[Plane]) -> Row:
    """What the planes that are no devices say of the recording."""
    return {
        key: value
        for plane in found
        if not _DEVICE.search(plane.name)
        for key, value in plane.stats.items()
    }


def _device(plane: Plane, named: re.Match[str]) -> Row:
    known = {new: plane.stats.get(old) for old, new in _DEVICE_PROPERTIES.items()}
    name = plane.stats.get("device_type_string", "")
    return {**plane.stats, **present(known), "id": int(named["number"]), "name": name}


def _events(found: list[Plane], base: int) -> Iterator[Event]:
    hosts = (plane for plane in found if _HOST.search(plane.name) and plane.lines)
    host = next(map(_process, hosts), "host")
    devices = [plane for plane in found if _device_of(plane)]
    is_amd = any(plane.stats.get("device_vendor") == "AMD" for plane in devices)
    calls = _Calls(
        "cuda_runtime" if devices else "user_annotation",
        _HIP_LAUNCH if is_amd else _CUDA_LAUNCH,
    )
    for plane in found:
        if named := _device_of(plane):
            yield from _of_device(plane, int(named["number"]), base)
        else:
            yield from _of_host(plane, host, base, calls)


def _process(plane: Plane) -> object:
    return integer(plane.stats.get("process_id")) or plane.number or plane.name


def _device_of(plane: Plane) -> re.Match[str] | None:
    """The kind and number of a device with work, other than the host's CPU."""
    named = _DEVICE.search(plane.name)
    return named if named and plane.lines and named["kind"] != "CPU" else None


def _of_host(plane: Plane, pid: object, base: int, calls: _Calls) -> Iterator[Event]:
    """Events of the host's threads, which calls of the runtime share."""
    for line in plane.lines:
        yield metadata("thread_name", pid, line.tid, {"name": line.name})
        for span in line.spans:
            start = span.start_ns - base
            yield _host_event(span, pid, line.tid, start, calls)


def _host_event(span: Span, pid: object, tid: int, start: int, calls: _Calls) -> Event:
    args, name, cat = dict(span.args), span.name, "cpu_op"
    correlation = integer(args.pop("correlation_id", None))
    if (step := integer(args.get("step_num"))) is not None:
        cat, name = "user_annotation", f"ProfilerStep#{step}"
        args["name"] = span.name
    elif named := _CALL.match(name):
        cat = "cuda_driver" if named["driver"] else "cuda_runtime"
        args |= present({"correlation": correlation})
    elif correlation is not None:
        args |= {"correlation": correlation, "kernel": name}
        cat, name = calls.launch
    elif _WAIT.fullmatch(name):
        cat = calls.waiting
    elif name == _LOADING:
        cat = "user_annotation"
    elif called := _PYTHON.fullmatch(name):
        cat, name = "python_function", _python_name(called)
    if span.dur_ns is None or name.startswith(_ENDED):
        cat = "cpu_instant_event"
    ph = "i" if span.dur_ns is None else "X"
    return Event(ph, cat, name, pid, tid, start, span.dur_ns, args)


def _python_name(called: re.Match[str]) -> str:
    """A function's name as Kineto writes it.

    >>> _python_name(_PYTHON.fullmatch("$train.py:12 step"))
    'train.py(12): step'
    >>> _python_name(_PYTHON.fullmatch("$builtins isinstance"))
    '<built-in builtins isinstance>'
    """
    if called["file"]:
        return f"{called['file']}({called['line']}): {called['function']}"
    return f"<built-in {called['function']}>"


def _of_device(plane: Plane, device: int, base: int) -> Iterator[Event]:
    """Work of a device's streams; its other lines as ranges."""
    has_streams = any(_STREAM.search(line.name) for line in plane.lines)
    is_work = _STREAM if has_streams else _OPS
    for line in plane.lines:
        named = _STREAM.search(line.name)
        stream = int(named[1]) if named else line.tid
        yield metadata("thread_name", device, stream, {"name": line.name})
        spans: Iterable[Span] = line.spans
        enclosing: set[int] = set()
        if not has_streams:
            spans = listed = list(line.spans)
            enclosing = _enclosing(listed)
        for number, span in enumerate(spans):
            start = span.start_ns - base
            is_of_line = is_work.search(line.name) and number not in enclosing
            if is_of_line and not _is_bookkeeping(span):
                yield _work(span, device, stream, start)
            else:
                yield _range(span, device, f"{line.name} {line.tid}", start)


def _is_bookkeeping(span: Span) -> bool:
    """Whether it is of a stream, but no work of it."""
    is_of_memory = any(details in span.args for details in _NO_WORK_DETAILS)
    return is_of_memory or bool(_NO_WORK.fullmatch(span.name))


def _range(span: Span, device: int, lane: str, start: int) -> Event:
    cat, dur_ns = "gpu_user_annotation", span.dur_ns or 0
    return Event("X", cat, span.name, device, lane, start, dur_ns, span.args)


def _enclosing(spans: list[Span]) -> set[int]:
    """The spans that enclose another one, such as loops, by their place in the list."""
    found: set[int] = set()
    opened: list[int] = []
    order = sorted(
        range(len(spans)), key=lambda n: (spans[n].start_ns, -(spans[n].dur_ns or 0))
    )
    for number in order:
        start = spans[number].start_ns
        while opened and _end(spans[opened[-1]]) <= start:
            opened.pop()
        if opened and _end(spans[number]) <= _end(spans[opened[-1]]):
            found.add(opened[-1])
        opened.append(number)
    return found


def _end(span: Span) -> int:
    return span.start_ns + (span.dur_ns or 0)


def _work(span: Span, device: int, stream: int, start: int) -> Event:
    args = dict(span.args)
    correlation = integer(args.pop("correlation_id", None))
    cat, name = "kernel", span.name
    if "memcpy_details" in args or _COPY.match(name):
        cat, name = "gpu_memcpy", _copy_name(name)
    elif "memset_details" in args or name.lower().startswith("memset"):
        cat = "gpu_memset"
    elif (named := _COLLECTIVE.match(name)) or (
        named := _COLLECTIVE.match(str(args.get("hlo_category", "")))
    ):
        args["Collective name"] = named[1].replace("-", "_")
    args |= _details(args)
    known = {"device": device, "stream": stream, "correlation": correlation}
    args |= present(known)
    return Event("X", cat, name, device, stream, start, span.dur_ns or 0, args)


def _copy_name(name: str) -> str:
    """The name of a copy as Kineto writes it.

    >>> _copy_name("MemcpyH2D")
    'Memcpy HtoD (Host -> Device)'
    >>> _copy_name("MEMORY_COPY_DEVICE_TO_HOST")
    'Memcpy DtoH (Device -> Host)'
    """
    found = _COPY.match(name)
    return copy_name(found[1], found[2]) if found else name


def _details(args: Row) -> Row:
    """Grid and block of a kernel, bytes of a copy or memset, from their texts."""
    details = " ".join(
        str(args.get(f"{kind}_details", "")) for kind in ("kernel", "memcpy", "memset")
    )
    told = dict(_DETAIL.findall(details))
    found: dict[str, Any] = {
        key: [integer(part) for part in told[key].split(",")]
        for key in ("grid", "block")
        if key in told
    }
    size = integer(told.get("size") or told.get("num_bytes"))
    return found | present({"bytes": size})
