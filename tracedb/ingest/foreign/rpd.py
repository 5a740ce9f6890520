"""Read databases of AMD's rocmProfileData (`.rpd`), of schema versions 1 to 3.

Calls of HIP and user markers are rows of `rocpd_api`, GPU work of `rocpd_op`, and
`rocpd_api_ops` has which call launched what. All names are ids of `rocpd_string`;
those of arguments, since version 3, of `rocpd_ustring`.

Processes that recorded at the same time share one file. Each with GPU work is a trace
of its own, whose rank is not recorded: it follows from the order of GPUs.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tracedb.errors import IngestError
from tracedb.ingest.foreign import ranges
from tracedb.ingest.foreign.event import (
    Event,
    ForeignTrace,
    Row,
    batched,
    copy_name,
    integer,
    present,
    take_span,
)
from tracedb.ingest.foreign.processes import Process, assumed_rank, numbers_of
from tracedb.ingest.foreign.tables import Tables, opened, table_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["TABLES", "parts", "read", "recognises"]

TABLES = frozenset({"rocpd_api", "rocpd_op", "rocpd_string"})
"""The tables that all versions have, and rocprofv3's databases do not."""
_LINKS = "rocpd_api_ops"
_SIZES = {"rocpd_copyapi": "api_ptr_id", "rocpd_copyop": "op_ptr_id"}
"""Where the sizes of copies are, by call or by GPU op."""
_KNOWN = TABLES | _SIZES.keys() | {_LINKS, "rocpd_ustring", "rocpd_metadata"}
_OF_KERNELS = {"rocpd_kernelapi", "rocpd_kernelop", "rocpd_kernelcodeobject"}
_NEEDED = {
    "rocpd_api": {"id", "pid", "tid", "start", "end", "apiName_id", "args_id"},
    "rocpd_op": {"id", "gpuId", "queueId", "start", "end", "description_id"}
    | {"opType_id"},
    "rocpd_string": {"id", "string"},
}
_MARKER = "UserMarker"
_CALL = re.compile(r"(hip|hsa|cuda|cu)_?[A-Z]|hsa_")
# What the tracer records of itself.
_OVERHEAD = re.compile(r"BLOCKING|(rpd_tracer::)?\w+(Table|DataSource)::\w+")
# `CopyHostToDevice`, `CopyDeviceToHost2D`, `MEMORY_COPY_DEVICE_TO_DEVICE`.
_COPY = re.compile(r"(?:MEMORY_)?COPY_?(HOST|DEVICE)_?TO_?(HOST|DEVICE)", re.IGNORECASE)
_KINDS = {
    re.compile("KernelExecution|Task"): "kernel",
    re.compile(r"(MEMORY_)?(Copy|Memcpy).*", re.IGNORECASE): "gpu_memcpy",
    re.compile(r"(Fill|Memset).*", re.IGNORECASE): "gpu_memset",
}
"""Categories of GPU work by the type of its row; others are ranges."""


class _Launches(NamedTuple):
    """Which call launched each GPU op, and whose process each call is of."""

    call_of: Mapping[object, object]
    process_of: Mapping[object, int]

    def process(self, op: object) -> int | None:
        """The process of a GPU op; None if its call is not recorded."""
        return self.process_of.get(self.call_of.get(op))


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is a database of rocmProfileData."""
    return table_names(path, head) >= TABLES


def parts(path: Path) -> list[int]:
    """See `DividedReader`: the numbers of processes."""
    return numbers_of(path, lambda tables: _processes(tables, _launches(tables)))


def read(path: Path, part: int | None = None) -> ForeignTrace:
    """Read a process of a database, or all in one trace; see `DividedReader`."""
    issues: Counter[str] = Counter()
    with opened(path) as tables:
        _require(path, tables)
        every = _processes(tables, _launches(tables))
        facts = {
            str(row.get("tag")): row.get("value")
            for row in tables.rows("rocpd_metadata")
        }
        header: Row = {
            "source": {
                "tool": "rocmProfileData",
                "schemaVersion": facts.get("schema_version"),
                "export": facts,
            },
            "deviceProperties": [],
            "baseTimeNanoseconds": 0,
            "unreadTables": sorted(_unread(tables)),
        }
    if part is not None:
        header |= {"process": part}
        if info := assumed_rank(part, every):
            header["distributedInfo"] = info
    return ForeignTrace(header, batched(_events(path, issues, part, every)), issues)


def _require(path: Path, tables: Tables) -> None:
    for table, needed in _NEEDED.items():
        missing = sorted(needed - tables.columns(table))
        if missing:
            raise IngestError(
                f"{path}: table {table} has no column {', '.join(missing)}; "
                "record it again with a current rocmProfileData"
            )


def _unread(tables: Tables) -> Iterator[str]:
    """Tables with rows that nothing reads, such as clocks of the GPU."""
    for name in tables.names() - _KNOWN - _OF_KERNELS:
        is_of_it = name.startswith("rocpd_")
        if is_of_it and next(tables.rows(name), None) is not None:
            yield name


def _launches(tables: Tables) -> _Launches:
    calls = {row.get("op_id"): row.get("api_id") for row in tables.rows(_LINKS)}
    launching = set(calls.values())
    processes = {
        row["id"]: number
        for row in tables.rows("rocpd_api")
        if row.get("id") in launching
        and (number := integer(row.get("pid"))) is not None
    }
    return _Launches(calls, processes)


def _processes(tables: Tables, launches: _Launches) -> list[Process]:
    """The processes with GPU work, by number."""
    gpus: dict[int, set[object]] = {}
    extents: dict[int, tuple[int, int]] = {}
    for row in tables.rows("rocpd_op"):
        number = launches.process(row.get("id"))
        start, end = integer(row.get("start")), integer(row.get("end"))
        if number is None or start is None or end is None:
            continue
        first, last = extents.get(number, (start, end))
        extents[number] = min(first, start), max(last, end)
        gpus.setdefault(number, set()).add(row.get("gpuId"))
    return [
        Process(number, frozenset(gpus[number]), *extents[number])
        for number in sorted(extents)
    ]


def _events(
    path: Path, issues: Counter[str], part: int | None, every: list[Process]
) -> Iterator[Event]:
    """Events of one process, the first also with what is of none with GPU work."""
    others = {process.number for process in every} - {part}
    is_first = part is None or all(part < number for number in others)

    def is_wanted(number: int | None) -> bool:
        if part is None or number == part:
            return True
        return is_first and number not in others

    with opened(path) as tables:
        texts = {r.get("id"): str(r.get("string")) for r in tables.rows("rocpd_string")}
        args = {r.get("id"): str(r.get("string")) for r in tables.rows("rocpd_ustring")}
        launches = _launches(tables)
        of_call, of_op = (
            {row.get(key): row.get("size") for row in tables.rows(table)}
            for table, key in _SIZES.items()
        )
        for row in tables.rows("rocpd_api"):
            if is_wanted(integer(row.get("pid"))):
                yield _call(row, texts, args or texts, issues)
        for row in tables.rows("rocpd_op"):
            if is_wanted(launches.process(row.get("id"))):
                op, call = row.get("id"), launches.call_of.get(row.get("id"))
                size = of_call.get(call) if call in of_call else of_op.get(op)
                known = {"correlation": integer(call), "bytes": size}
                yield _work(row, texts, known, issues)


def _call(
    row: Row,
    texts: Mapping[object, str],
    arguments: Mapping[object, str],
    issues: Counter[str],
) -> Event:
    """A call of the runtime, a marker, or what the tracer needed for itself."""
    name = texts.get(row.get("apiName_id"), "")
    told = arguments.get(row.get("args_id"), "")
    start, duration = take_span(row, issues)
    args: Row = {"args": told} if told else {}
    ph, cat = "X", "cuda_runtime"
    if name == _MARKER:
        parsed = ranges.parse(told)
        name, args = parsed.name, parsed.args
        cat = "cpu_op" if parsed.is_op else "user_annotation"
        if duration == 0:
            ph, cat, duration = "i", "cpu_instant_event", None
    elif _OVERHEAD.fullmatch(name) or _OVERHEAD.fullmatch(told):
        cat = "overhead"
    elif _CALL.match(name):
        args |= present({"correlation": integer(row.get("id"))})
    else:
        cat = "user_annotation"
    return Event(ph, cat, name, row.get("pid"), row.get("tid"), start, duration, args)


def _work(
    row: Row, texts: Mapping[object, str], known: Row, issues: Counter[str]
) -> Event:
    """A kernel, copy or memset; barriers and the like are ranges of the device."""
    what = texts.get(row.get("opType_id"), "")
    described = texts.get(row.get("description_id"), "")
    cats = (cat for kind, cat in _KINDS.items() if kind.fullmatch(what))
    cat = next(cats, "gpu_user_annotation")
    name = described or what
    if cat == "gpu_memcpy" and (found := _COPY.match(what)):
        name = copy_name(found[1], found[2])
    start, duration = take_span(row, issues)
    device, stream = row.get("gpuId"), row.get("queueId")
    args = present({"device": device, "stream": stream, **known})
    return Event("X", cat, name, device, stream, start, duration, args)
