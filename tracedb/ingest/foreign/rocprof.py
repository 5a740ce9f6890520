"""Read databases of AMD's rocprofv3 (rocpd), of schema versions 3 and 4.

Table names contain the run's id, and columns moved between versions, so this reads the
views, whose names are stable. Times count from the boot of the machine.

rocprofv3 writes a file per process, and `rocpd merge` joins them. Each process with GPU
work is a trace of its own. Its rank is that of its environment, which launchers set.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tracedb.errors import IngestError
from tracedb.ingest.foreign import ranges
from tracedb.ingest.foreign.event import (
    Correlations,
    Event,
    ForeignTrace,
    Row,
    batched,
    copy_name,
    integer,
    metadata,
    present,
    renamed,
    take_span,
)
from tracedb.ingest.foreign.processes import (
    Ids,
    OfProcess,
    Process,
    assumed_rank,
    joined,
    numbers_of,
)
from tracedb.ingest.foreign.tables import Tables, opened, table_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["parts", "read", "recognises"]

_MARKER = "MARKER_"
_MARK = "roctxMark"
_CALLS = ("HIP_", "HSA_")
_COPY = re.compile("(HOST|DEVICE)_TO_(HOST|DEVICE)")
# Device properties in rocpd's `extdata`, and Kineto's names.
_DEVICE_PROPERTIES = {"cu_count": "numSms", "wave_front_size": "warpSize"}
_WORK = {
    "kernels": ("agent_type_index", "agent_logical_index", "agent_log_index"),
    "memory_copies": ("dst_agent_type_index", "src_agent_type_index"),
}
"""The views of GPU work, and which columns may have the GPU."""
_IDS = Ids(("pid",), 0, 2**62 - 1)
# The variables of torchrun, Open MPI, MPICH and Slurm.
_RANKS = {
    "RANK": "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "SLURM_PROCID": "SLURM_NTASKS",
}


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is a database of rocprofv3."""
    names = table_names(path, head, views=True)
    return any(name.startswith("rocpd_metadata") for name in names)


def parts(path: Path) -> list[int]:
    """See `DividedReader`: the numbers of processes."""
    return numbers_of(path, _processes, views=True)


def read(path: Path, part: int | None = None) -> ForeignTrace:
    """Read a process of a database, or all in one trace; see `DividedReader`."""
    issues: Counter[str] = Counter()
    with opened(path, views=True) as tables:
        _require(path, tables)
        header = _header(tables)
        every = _processes(tables)
        own = every[0].number if part is None and len(every) == 1 else part
        if own is not None:
            header["process"] = own
            info = _distributed_info(tables, own, every)
            header |= {} if info is None else {"distributedInfo": info}
    return ForeignTrace(header, batched(_events(path, issues, part, every)), issues)


def _processes(tables: Tables) -> list[Process]:
    """The processes with GPU work, by number; none if rows do not tell them."""
    found: dict[int, list[Process]] = {}
    for view, columns in _WORK.items():
        known = tables.columns(view) if view in tables.names() else frozenset()
        gpu = next((column for column in columns if column in known), None)
        if gpu is None or not {"pid", "start", "end"} <= known:
            continue
        for row in tables.extents(view, "pid", gpu):
            number, first, last = (integer(row[k]) for k in ("pid", "first", "last"))
            if number is not None and first is not None and last is not None:
                # A copy names the other side's device, so it does not tell the GPU.
                gpus = frozenset({row[gpu]} if view == "kernels" else ())
                part = Process(number, gpus, first, last)
                found.setdefault(number, []).append(part)
    return [joined(found[number]) for number in sorted(found)]


def _distributed_info(tables: Tables, number: int, every: list[Process]) -> Row | None:
    """Kineto's description of a rank, and what was assumed; None if it is alone."""
    told = _told_by_launcher(tables)
    if number in told:
        rank, world_size = told[number]
        return {"backend": "nccl", "rank": rank, "world_size": world_size}
    return assumed_rank(number, every)


def _told_by_launcher(tables: Tables) -> dict[int, tuple[int, int]]:
    """The rank of each process and the number of ranks, if launchers set them."""
    found: dict[int, tuple[int, int]] = {}
    for row in tables.rows("rocpd_info_process"):
        variables, number = _object(row.get("environment")), integer(row.get("pid"))
        for name, count in _RANKS.items():
            rank, ranks = integer(variables.get(name)), integer(variables.get(count))
            if number is None or rank is None or ranks is None:
                continue
            if 0 <= rank < ranks:
                found.setdefault(number, (rank, ranks))
    return found


def _require(path: Path, tables: Tables) -> None:
    known = tables.names() & set(_READERS)
    if not known:
        raise IngestError(
            f"{path}: a rocpd database without its views ({', '.join(_READERS)}); "
            "write it again with rocprofv3 --output-format rocpd"
        )
    for view in sorted(known):
        missing = sorted({"start", "end"} - tables.columns(view))
        if missing:
            raise IngestError(
                f"{path}: view {view} has no column {', '.join(missing)}; "
                "write it again with a current rocprofv3"
            )


def _header(tables: Tables) -> Row:
    facts = {
        str(row.get("tag")): row.get("value") for row in tables.rows("rocpd_metadata")
    }
    unread = {n for n in tables.names() if not n.startswith("rocpd_")} - set(_READERS)
    return {
        "source": {
            "tool": "rocprofv3",
            "schemaVersion": facts.get("schema_version"),
            "export": facts,
        },
        "deviceProperties": [_gpu(row) for row in _gpus(tables)],
        "baseTimeNanoseconds": 0,
        "unreadTables": sorted(unread - {"processes", "threads"}),
    }


def _gpus(tables: Tables) -> Iterator[Row]:
    if "rocpd_info_agent" in tables.names():
        rows = tables.rows("rocpd_info_agent")
        yield from (row for row in rows if row.get("type") == "GPU")


def _gpu(row: Row) -> Row:
    extra = _object(row.pop("extdata", None))
    names = (row.get(key) for key in ("product_name", "model_name", "name"))
    return {
        **extra,
        **present({new: extra.get(old) for old, new in _DEVICE_PROPERTIES.items()}),
        **present({f"agent_{key}": value for key, value in row.items()}),
        "id": row.get("type_index", row.get("logical_index")),
        "name": next((name for name in names if name), ""),
    }


def _object(text: object) -> Row:
    """The JSON object in a text; empty if there is none."""
    try:
        return msgspec.json.decode(text, type=Row) if isinstance(text, str) else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def _events(
    path: Path, issues: Counter[str], number: int | None, every: list[Process]
) -> Iterator[Event]:
    with opened(path, views=True) as whole:
        tables = whole if number is None else OfProcess(whole, _IDS, number, every)
        database = _Database(tables, issues)
        yield from database.names_of_threads()
        for view, event in _READERS.items():
            for row in tables.rows(view):
                row["category"] = row.get("category") or view.upper()
                yield event(database, row)


class _Database:
    """A database: lookups between its records, and its events."""

    def __init__(self, tables: Tables, issues: Counter[str]) -> None:
        self._tables = tables
        self._issues = issues
        self._correlations = Correlations()
        self._parents = self._calls_within_calls()

    def names_of_threads(self) -> Iterator[Event]:
        """Metadata events of processes and threads."""
        for row in self._tables.rows("processes"):
            args = {**present(row), "name": row.get("command")}
            yield metadata("process_name", row.get("pid"), 0, args)
        for row in self._tables.rows("threads"):
            yield metadata("thread_name", row.get("pid"), row.get("tid"), present(row))

    def region(self, row: Row) -> Event:
        """A call, or a user range or mark."""
        category = str(row["category"])
        if category.startswith(_MARKER):
            return self._annotation(row)
        is_call = category.startswith(_CALLS)
        cat = "cuda_runtime" if is_call else category.lower()
        return self._host_event(cat, row.pop("name", None), row)

    def kernel(self, row: Row) -> Event:
        """A kernel; the grid is converted from threads to blocks."""
        block = [row.pop(f"workgroup_{axis}", None) for axis in "xyz"]
        threads = [row.pop(f"grid_{axis}", None) for axis in "xyz"]
        args = {
            "grid": [_blocks(*pair) for pair in zip(threads, block, strict=True)],
            "block": block,
        }
        device = _first_of(row, "agent_type_index", "agent_logical_index")
        name = row.pop("name", None) or "unknown kernel"
        return self._gpu_work("kernel", name, device, row, args)

    def memcpy(self, row: Row) -> Event:
        """A copy, named as Kineto does."""
        operation = str(row.get("name"))
        found = _COPY.search(operation)
        name = copy_name(found[1], found[2]) if found else operation
        side = "dst" if row.get("dst_agent_type") == "GPU" else "src"
        device = _first_of(
            row, f"{side}_agent_type_index", f"{side}_agent_logical_index"
        )
        args = renamed(row, {"size": "bytes", "name": "operation"})
        return self._gpu_work("gpu_memcpy", name, device, row, args)

    def other(self, row: Row) -> Event:
        """A record of an unsupported view."""
        name = row.get("name") or row.get("type") or row["category"]
        return self._host_event(str(row["category"]).lower(), name, row)

    def _annotation(self, row: Row) -> Event:
        function = str(row.get("name"))
        message = _object(row.get("extdata")).get("message")
        text = str(message) if function.startswith("roctx") and message else function
        parsed = ranges.parse(text)
        cat = "cpu_op" if parsed.is_op else "user_annotation"
        event = self._host_event(cat, parsed.name, row)
        event = event._replace(args={**event.args, **parsed.args})
        if function.startswith(_MARK):
            return event._replace(ph="i", cat="cpu_instant_event", dur_ns=None)
        return event

    def _host_event(self, cat: str, name: object, row: Row) -> Event:
        pid, tid = row.pop("pid", None), row.pop("tid", None)
        start, duration = take_span(row, self._issues)
        correlation = self._correlations.number(_process(row, pid), row.get("stack_id"))
        args = {**present(row), **present({"correlation": correlation})}
        return Event("X", cat, str(name), pid, tid, start, duration, args)

    def _gpu_work(
        self, cat: str, name: str, device: object, row: Row, args: Row
    ) -> Event:
        start, duration = take_span(row, self._issues)
        stream = _first_of(row, "stream_id", "queue_id")
        process = _process(row, row.get("pid"))
        known = {
            **args,
            "device": device,
            "stream": stream,
            "correlation": self._correlations.number(process, self._launch(row)),
        }
        merged = {**present(row), **present(known)}
        return Event("X", cat, name, device, stream, start, duration, merged)

    def _launch(self, row: Row) -> object:
        """The outermost call in which the work was launched.

        A HIP call makes HSA calls; where both are recorded, work names the inner one.
        """
        process = _process(row, row.get("pid"))
        stack = row.get("stack_id")
        seen = set()
        while (process, stack) in self._parents and stack not in seen:
            seen.add(stack)
            stack = self._parents[process, stack]
        return stack

    def _calls_within_calls(self) -> dict[tuple[object, object], object]:
        calls = {}
        for row in self._tables.rows("regions"):
            if str(row.get("category")).startswith(_CALLS):
                process = _process(row, row.get("pid"))
                calls[process, row.get("stack_id")] = row.get("parent_stack_id")
        return {
            (process, stack): parent
            for (process, stack), parent in calls.items()
            if parent != stack and (process, parent) in calls
        }


def _process(row: Row, pid: object) -> tuple[object, object]:
    return row.get("guid"), pid


def _first_of(row: Row, *columns: str) -> object:
    values = (row.get(column) for column in columns)
    return next((value for value in values if value is not None), None)


def _blocks(threads: object, block: object) -> int | None:
    count, size = integer(threads), integer(block)
    return None if count is None or not size else -(-count // size)


_READERS: dict[str, Callable[[_Database, Row], Event]] = {
    "regions": _Database.region,
    "kernels": _Database.kernel,
    "memory_copies": _Database.memcpy,
    "memory_allocations": _Database.other,
    "graph_launches": _Database.other,
}
