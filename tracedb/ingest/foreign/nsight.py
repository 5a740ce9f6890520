"""Read exports of Nsight Systems: `nsys export -t sqlite` and `-t parquetdir`.

Tables and columns vary between schema versions, and empty tables are missing, so tables
are read by name if present. Times count from the start of the session. Each process
with GPU work is a trace of its own (`nsight_processes`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from tracedb.errors import IngestError
from tracedb.ingest.foreign import ranges
from tracedb.ingest.foreign.event import (
    Correlations,
    Event,
    ForeignTrace,
    Row,
    batched,
    integer,
    metadata,
    present,
    renamed,
    take_span,
)
from tracedb.ingest.foreign.nsight_processes import (
    IDS,
    distributed_info,
    gpu_ids,
    processes,
)
from tracedb.ingest.foreign.nsight_processes import ids as _ids
from tracedb.ingest.foreign.processes import OfProcess, numbers_of
from tracedb.ingest.foreign.tables import opened, table_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tracedb.ingest.foreign.processes import Process
    from tracedb.ingest.foreign.tables import Tables

__all__ = ["parts", "read", "recognises"]

_CUPTI = "CUPTI_ACTIVITY_KIND_"
# Tables with `start` that are not events, or are read in another way.
_NO_EVENTS = re.compile(
    r"ENUM_.*|TARGET_INFO_.*|META_DATA_.*|EXPORT_META_DATA|sqlite_.*"
)
_META_DATA = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_SCHEMA_VERSION = "EXPORT_SCHEMA_VERSION"

_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
_DRIVER_CALL = re.compile(r"cu[A-Z]")

# NVTX_EVENTS.eventType: push/pop ranges are 59 and 70, start/end ranges 60 and 71.
_PUSH_POP, _MARK, _DOMAIN = 59, 34, 75
_RANGES = frozenset({_PUSH_POP, 60, 70, 71})

# Columns with ids of StringIds.
_TEXTS = ("demangledName", "shortName", "mangledName", "nameId", "jsonTextId")

_GPU_ARGS = {
    "streamId": "stream",
    "contextId": "context",
    "registersPerThread": "registers per thread",
}

# Nsight's enumerations, for files that lack their tables.
_COPY_KINDS: dict[object, str] = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
}
_COPY_KINDS |= {7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_COPY_KINDS |= {11: "HtoD", 12: "DtoH", 13: "DtoD"}
_MEMORY_KINDS: dict[object, str] = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
}
_MEMORY_KINDS |= {5: "Device Static", 6: "Managed Static", 7: "Unknown"}
_SYNC_KINDS: dict[object, str] = {
    1: "Event Sync",
    2: "Stream Wait Event",
    3: "Stream Sync",
    4: "Context Sync",
}
_SYNC_NAMES = {
    "STREAM_WAIT_EVENT": "Stream Wait Event",
    "EVENT_SYNCHRONIZE": "Event Sync",
    "STREAM_SYNCHRONIZE": "Stream Sync",
    "CONTEXT_SYNCHRONIZE": "Context Sync",
}
_NO_STREAM = 2**32 - 1
_BACKTRACE = 67
_OF_OTHERS = "kept with the first process: of no process with GPU work"
_UNKNOWN_THREAD = "unknown"

# Nsight's device properties, and Kineto's names.
_DEVICE_PROPERTIES = {
    "totalMemory": "totalGlobalMem",
    "smCount": "numSms",
    "threadsPerWarp": "warpSize",
    "maxRegistersPerBlock": "regsPerBlock",
    "maxRegistersPerSm": "regsPerMultiprocessor",
    "maxShmemPerBlock": "sharedMemPerBlock",
    "maxShmemPerBlockOptin": "sharedMemPerBlockOptin",
    "maxShmemPerSm": "sharedMemPerMultiprocessor",
}


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is an export of Nsight Systems."""
    names = table_names(path, head)
    has_events = (
        any(name.startswith(_CUPTI) for name in names) or "NVTX_EVENTS" in names
    )
    return "StringIds" in names and has_events


def parts(path: Path) -> list[int]:
    """See `DividedReader`: the numbers of processes."""
    return numbers_of(path, processes)


def read(path: Path, part: int | None = None) -> ForeignTrace:
    """Read a process of an export, or all in one trace; see `DividedReader`."""
    issues: Counter[str] = Counter()
    with opened(path) as tables:
        _require(path, tables)
        header = _header(tables)
        every = [] if part is None else processes(tables)
        if part is not None:
            header["process"] = part
            info = distributed_info(tables, part, every)
            header |= {} if info is None else {"distributedInfo": info}
    return ForeignTrace(header, batched(_events(path, issues, part, every)), issues)


def _require(path: Path, tables: Tables) -> None:
    """Raise `IngestError` if tables lack required columns."""
    for table in sorted(tables.names() & {"StringIds", *_READERS}):
        wanted = _REQUIRED.get(table, {"start", "end"})
        missing = sorted(wanted - tables.columns(table))
        if missing:
            raise IngestError(
                f"{path}: table {table} has no column {', '.join(missing)}; export "
                "the report again with a current nsys"
            )


def _header(tables: Tables) -> Row:
    header: Row = {"source": _source(tables), "deviceProperties": _gpus(tables)}
    for row in tables.rows("TARGET_INFO_SESSION_START_TIME"):
        header["baseTimeNanoseconds"] = integer(row.get("utcEpochNs")) or 0
        header["TARGET_INFO_SESSION_START_TIME"] = present(row)
    header.setdefault("baseTimeNanoseconds", 0)
    unread = tables.names() - {t for t in tables.names() if _is_event_table(tables, t)}
    header["unreadTables"] = sorted(unread - set(_READERS) - _CONTEXT)
    return header


def _source(tables: Tables) -> Row:
    facts = {
        str(row.get("name")): row.get("value")
        for table in _META_DATA
        for row in tables.rows(table)
    }
    version = facts.get(_SCHEMA_VERSION)
    return {"tool": "Nsight Systems", "schemaVersion": version, "export": facts}


def _gpus(tables: Tables) -> list[Row]:
    is_mapped = "TARGET_INFO_CUDA_DEVICE" in tables.names()
    return [_gpu(row, is_mapped=is_mapped) for row in tables.rows("TARGET_INFO_GPU")]


def _gpu(row: Row, *, is_mapped: bool) -> Row:
    # Without a table that maps device ids per process, use the CUDA device number.
    number = row.get("id") if is_mapped else row.get("cuDevice", row.get("id"))
    kineto = {new: row.get(old) for old, new in _DEVICE_PROPERTIES.items()}
    properties = {**present(row), **present(kineto)}
    return {**properties, "id": row.get("id") if number is None else number}


def _events(
    path: Path, issues: Counter[str], number: int | None, every: list[Process]
) -> Iterator[Event]:
    with opened(path) as whole:
        tables = whole if number is None else OfProcess(whole, IDS, number, every)
        report = _Report(tables, issues)
        yield from report.names_of_threads()
        for table, event in _READERS.items():
            for row in _counted(tables, table, issues):
                yield event(report, row)
        for table in sorted(tables.names() - set(_READERS)):
            if _is_event_table(tables, table):
                for row in _counted(tables, table, issues):
                    yield report.other(table, row)


def _counted(tables: Tables, table: str, issues: Counter[str]) -> Iterator[Row]:
    """The rows of a table, of which those of other processes are counted."""
    for row in tables.rows(table):
        if isinstance(tables, OfProcess) and not tables.owns(row):
            issues[_OF_OTHERS] += 1
        yield row


def _is_event_table(tables: Tables, table: str) -> bool:
    return not _NO_EVENTS.fullmatch(table) and {"start", "end"} <= tables.columns(table)


class _Report:
    """A report: lookups between its tables, and its events."""

    def __init__(self, tables: Tables, issues: Counter[str]) -> None:
        self._tables = tables
        self._issues = issues
        self._correlations = Correlations()
        self._texts = {row["id"]: row["value"] for row in tables.rows("StringIds")}
        self._devices = gpu_ids(tables)
        self._memory_kinds = _MEMORY_KINDS | self._labels("ENUM_CUDA_MEM_KIND")
        self._sync_kinds = self._named_sync_kinds() or _SYNC_KINDS
        self._backtraces = self._backtrace_classes()
        self._domains = self._named_domains()
        self._records = self._recorded_events()

    def names_of_threads(self) -> Iterator[Event]:
        """Metadata events with the names of threads and processes."""
        for table, kind, column in _NAME_TABLES:
            for row in self._tables.rows(table):
                pid, tid = _ids(row.get(column))
                text = self._text(row.get("nameId", row.get("name")))
                yield metadata(kind, pid, tid, {**present(row), "name": text})

    def kernel(self, row: Row) -> Event:
        """A kernel."""
        name = self._kernel_name(row)
        args = {
            "grid": [row.pop(f"grid{axis}", None) for axis in "XYZ"],
            "block": [row.pop(f"block{axis}", None) for axis in "XYZ"],
            "shared memory": (integer(row.get("staticSharedMemory")) or 0)
            + (integer(row.get("dynamicSharedMemory")) or 0),
        }
        return self._gpu_work("kernel", name, row, args)

    def graph(self, row: Row) -> Event:
        """A replay of a graph that was traced as a whole."""
        name = f"CUDA graph {row.get('graphId')}"
        return self._gpu_work("kernel", name, row, {})

    def memcpy(self, row: Row) -> Event:
        """A copy, named as Kineto does."""
        direction = _COPY_KINDS.get(row.get("copyKind"), "Unknown")
        ends = [
            self._memory_kinds.get(row.get(key), "Unknown")
            for key in ("srcKind", "dstKind")
        ]
        name = f"Memcpy {direction} ({' -> '.join(ends)})"
        return self._gpu_work("gpu_memcpy", name, row, {})

    def memset(self, row: Row) -> Event:
        """A memset, named as Kineto does."""
        kind = self._memory_kinds.get(row.get("memKind"), "Unknown")
        return self._gpu_work("gpu_memset", f"Memset ({kind})", row, {})

    def call(self, row: Row) -> Event:
        """A call of the runtime or the driver."""
        full_name = self._text(row.pop("nameId", None)) or "unknown call"
        name = _VERSION.sub("", full_name)
        cat = "cuda_driver" if _DRIVER_CALL.match(name) else "cuda_runtime"
        if row.get("eventClass") in self._backtraces:
            cat = "cuda_backtrace"
        if name != full_name:
            row["versionedName"] = full_name
        return self._host_event(cat, name, row)

    def annotation(self, row: Row) -> Event:
        """A user range or mark, or an op that PyTorch wrote as a range."""
        kind = _nvtx_kind(row.get("eventType", _PUSH_POP))
        text = row.pop("text", None)
        if text is None:
            text = self._text(row.pop("textId", None))
        self._add_domain(row)
        if kind == "range":
            return self._range(text or "", row)
        return self._point(kind, text, row)

    def synchronization(self, row: Row) -> Event:
        """A synchronization, with the awaited event."""
        kind = self._sync_kinds.get(row.get("syncType"), "Unknown Sync")
        if row.get("streamId") == _NO_STREAM:
            row["streamId"] = -1
        awaited = {}
        if kind in ("Event Sync", "Stream Wait Event"):
            stream, correlation = self._awaited(row)
            awaited = {
                "wait_on_stream": stream,
                "wait_on_cuda_event_record_corr_id": correlation,
                "wait_on_cuda_event_id": row.pop("eventId", None),
            }
        args = {"cuda_sync_kind": kind, **awaited}
        return self._gpu_work("cuda_sync", kind, row, args)

    def event_record(self, row: Row) -> Event:
        """The record of an event on a stream."""
        # When the device reached it; 0 if not recorded.
        time = integer(row.get("timestamp")) or None
        event = self._gpu_work("cuda_event", "Event Record", row, {}, is_timed=False)
        return event._replace(ph="i", ts_ns=time)

    def other(self, table: str, row: Row) -> Event:
        """An event of an unsupported table; its category is the table."""
        name = self._text(row.pop("nameId", None)) or table
        return self._host_event(table.lower(), name, row)

    def _gpu_work(
        self, cat: str, name: str, row: Row, args: Row, *, is_timed: bool = True
    ) -> Event:
        pid, _ = _ids(row.get("globalPid"))
        device = row.pop("deviceId", None)
        device = self._devices.get((pid, device), device)
        start, duration = take_span(row, self._issues) if is_timed else (None, None)
        known = {**renamed(row, _GPU_ARGS), **args, "device": device}
        known["correlation"] = self._correlation(pid, row)
        merged = {**self._resolved(row), **present(known)}
        stream = merged.get("stream")
        return Event("X", cat, name, device, stream, start, duration, merged)

    def _host_event(self, cat: str, name: str, row: Row) -> Event:
        pid, tid = _ids(row.get("globalTid"))
        if pid is not None:
            del row["globalTid"]
        start, duration = take_span(row, self._issues)
        args = present({"correlation": self._correlation(pid, row)})
        merged = {**self._resolved(row), **args}
        if pid is None:
            pid = tid = _UNKNOWN_THREAD
        return Event("X", cat, name, pid, tid, start, duration, merged)

    def _point(self, kind: str, text: str | None, row: Row) -> Event:
        """A mark, or a definition of a name, which have no end."""
        pid, tid = _ids(row.pop("globalTid", None))
        time = integer(row.pop("start", None))
        args = self._resolved(row)
        if kind == "mark":
            return Event("i", "cpu_instant_event", text, pid, tid, time, None, args)
        named = metadata("nvtx", pid, tid, present({**args, "name": text}))
        return named._replace(ts_ns=time)

    def _range(self, text: str, row: Row) -> Event:
        parsed = ranges.parse(text)
        event = self._host_event("user_annotation", parsed.name, row)
        cat = "cpu_op" if parsed.is_op else "user_annotation"
        return event._replace(cat=cat, args={**event.args, **parsed.args})

    def _correlation(self, pid: object, row: Row) -> int | None:
        number = self._correlations.number(pid, row.get("correlationId"))
        if number == row.get("correlationId"):
            row.pop("correlationId", None)
        return number

    def _kernel_name(self, row: Row) -> str:
        for column in ("demangledName", "mangledName", "shortName"):
            if text := self._text(row.get(column)):
                del row[column]
                return text
        return "unknown kernel"

    def _text(self, number: object) -> str | None:
        text = number if isinstance(number, str) else self._texts.get(number)
        return None if text is None else str(text)

    def _resolved(self, row: Row) -> Row:
        """The columns with a value, with text ids resolved."""
        for column in _TEXTS:
            if text := self._text(row.get(column)):
                row[column] = text
        return present(row)

    def _labels(self, table: str) -> dict[object, str]:
        rows = self._tables.rows(table)
        return {row.get("id"): str(row["label"]) for row in rows if row.get("label")}

    def _named_sync_kinds(self) -> dict[object, str]:
        return {
            row.get("id"): kind
            for row in self._tables.rows("ENUM_CUPTI_SYNC_TYPE")
            for part, kind in _SYNC_NAMES.items()
            if part in str(row.get("name")).upper()
        }

    def _backtrace_classes(self) -> set[object]:
        """Classes of rows that repeat a call only to record its stack."""
        rows = self._tables.rows("ENUM_NSYS_EVENT_CLASS")
        known = {row.get("id"): str(row.get("name")) for row in rows}
        named = {id_ for id_, name in known.items() if "CUDABACKTRACE" in name}
        return named if known else {_BACKTRACE}

    def _named_domains(self) -> dict[tuple[object, object], str | None]:
        table = "NVTX_EVENTS"
        if table not in self._tables.names():
            return {}
        if not {"eventType", "domainId"} <= self._tables.columns(table):
            return {}
        return {
            (_ids(row.get("globalTid"))[0], row["domainId"]): row.get("text")
            or self._text(row.get("textId"))
            for row in self._tables.rows(table, eventType=_DOMAIN)
        }

    def _add_domain(self, row: Row) -> None:
        pid, _ = _ids(row.get("globalTid"))
        domain = self._domains.get((pid, row.get("domainId")))
        if domain is not None:
            row["domain"] = domain

    def _recorded_events(self) -> dict[tuple[object, ...], list[tuple[int, object]]]:
        """The correlations and streams of each event's records, in order."""
        records = defaultdict(list)
        for row in self._tables.rows(f"{_CUPTI}CUDA_EVENT"):
            correlation = integer(row.get("correlationId"))
            if correlation is not None:
                for key in _event_keys(row):
                    records[key].append((correlation, row.get("streamId")))
        return {key: sorted(found, key=_first) for key, found in records.items()}

    def _awaited(self, row: Row) -> tuple[object, int]:
        """The stream and correlation of the record that a wait awaits; -1 if unknown.

        It is the last record called before the wait.
        """
        correlation = integer(row.get("correlationId"))
        pid, _ = _ids(row.get("globalPid"))
        for key in _event_keys(row):
            known = self._records.get(key, [])
            place = len(known)
            if correlation is not None:
                place = bisect_left(known, correlation, key=_first)
            if place:
                number, stream = known[place - 1]
                return stream, self._correlations.number(pid, number) or -1
        return -1, -1


def _first(record: tuple[int, object]) -> int:
    return record[0]


def _event_keys(row: Row) -> Iterator[tuple[object, ...]]:
    """The keys that identify a CUDA event, best first."""
    process, context = row.get("globalPid"), row.get("contextId")
    if integer(row.get("eventSyncId")):
        yield "sync", process, row["eventSyncId"]
    yield "event", process, context, row.get("eventId")


def _nvtx_kind(type_: object) -> str:
    if type_ in _RANGES:
        return "range"
    return "mark" if type_ == _MARK else "definition"


# Required columns of tables, by default start and end.
_REQUIRED = {
    "StringIds": {"id", "value"},
    "NVTX_EVENTS": {"start"},
    f"{_CUPTI}CUDA_EVENT": {"eventId"},
}
_NAME_TABLES = (
    ("ThreadNames", "thread_name", "globalTid"),
    ("PROCESSES", "process_name", "globalPid"),
)
_CONTEXT = frozenset(
    {
        "StringIds",
        "TARGET_INFO_GPU",
        "TARGET_INFO_CUDA_DEVICE",
        "TARGET_INFO_SESSION_START_TIME",
        "ENUM_CUDA_MEM_KIND",
        "ENUM_CUPTI_SYNC_TYPE",
        "ENUM_NSYS_EVENT_CLASS",
        *_META_DATA,
        *(table for table, *_ in _NAME_TABLES),
    }
)
_READERS: dict[str, Callable[[_Report, Row], Event]] = {
    f"{_CUPTI}RUNTIME": _Report.call,
    f"{_CUPTI}DRIVER": _Report.call,
    "NVTX_EVENTS": _Report.annotation,
    f"{_CUPTI}KERNEL": _Report.kernel,
    f"{_CUPTI}MEMCPY": _Report.memcpy,
    f"{_CUPTI}MEMSET": _Report.memset,
    f"{_CUPTI}GRAPH_TRACE": _Report.graph,
    f"{_CUPTI}SYNCHRONIZATION": _Report.synchronization,
    f"{_CUPTI}CUDA_EVENT": _Report.event_record,
}
