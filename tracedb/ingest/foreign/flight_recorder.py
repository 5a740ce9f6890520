"""Read dumps of PyTorch's flight recorder, which list the collectives of a rank.

A process group keeps its last calls (`TORCH_FR_BUFFER_SIZE`), and dumps them on a
timeout or on request: a file per rank, as a pickle or as JSON, of schema 2. A call
becomes an event of the category `flight_recorder`. It lasts from the call until the
watchdog noticed its end, or is an instant if that is unknown.

A pickle can execute arbitrary code. So before unpickling, all operations are refused
that do not build plain containers, numbers or texts.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from tracedb.errors import ForeignFileError, IngestError
from tracedb.ingest.foreign.event import (
    Event,
    ForeignTrace,
    as_text,
    batched,
    integer,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tracedb.ingest.foreign.event import Row

__all__ = ["CATEGORY", "TOOL", "read", "recognises"]

CATEGORY = "flight_recorder"
"""The `raw.event.cat` of calls in a flight recorder."""
TOOL = "PyTorch flight recorder"

_JSON = re.compile(
    rb'\s*\{\s*"(entries|comm_lib_version|nccl_version|nccl_comm_state|pg_config|'
    rb'pg_status)"\s*:'
)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
# The rank is the number at the end of a name that is more than a number.
_RANK = re.compile(r"\D(\d{1,9})(?:\.[a-z]+)*$")
_BUILDING = frozenset(
    (
        *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINPUT", "LONG_BINPUT"),
        *("BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1"),
        *("BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"),
        *("EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS"),
        *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    )
)
"""Pickle operations that build plain values."""
_AS_JSON = "dump it as JSON (torch._C._distributed_c10d._dump_fr_trace_json)"
_BROKEN_PICKLE = (
    *(pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError),
    *(AttributeError, OverflowError, MemoryError),
)
# Limits of plausible tensor sizes. More may be a malicious list that contains one list
# many times.
_MOST_DIMENSIONS, _MOST_TENSORS, _MOST_FRAMES = 64, 4096, 256
_MOST_ELEMENTS = 2**50
_ELEMENT_BYTES = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat", "UInt64"), 8),
    **dict.fromkeys(("Float", "Int", "UInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e4m3fn", "Float8_e5m2", "Float8_e8m0fnu"), 1),
    "ComplexDouble": 16,
}
_NANOSECONDS = 1e6
_LONGEST_MS = 1e12
# PyTorch's own frames are more inner than the calling line of the program.
_LIBRARY = re.compile(r"(^|[/\\])torch[/\\]|typing_extensions\.py$|^<")


_MEMORY = "tracedb reads memory from traces recorded with profile_memory=True"


def recognises(path: Path, head: bytes) -> bool:
    """Whether it is a pickle, or JSON that begins like a dump; see `ForeignReader`."""
    del path
    return bool(_PICKLE.match(head) or _JSON.match(head))


def read(path: Path) -> ForeignTrace:
    """Read the dump of a rank; see `ForeignReader`."""
    dump = _content(path)
    entries = dump.get("entries", [])
    if {"segments", "device_traces"} <= dump.keys():
        raise ForeignFileError(f"{path}: is a memory snapshot of PyTorch; {_MEMORY}")
    if not isinstance(entries, (list, tuple)) or "version" not in dump:
        raise ForeignFileError(
            f"{path}: not a flight recorder dump: it has no version and list of entries"
        )
    if not entries:
        raise IngestError(
            f"{path}: the flight recorder holds no calls; set TORCH_FR_BUFFER_SIZE "
            "before the process group is created"
        )
    issues: Counter[str] = Counter()
    ranks = _ranks_of_groups(dump.get("pg_config"))
    calls = [entry for entry in entries if isinstance(entry, dict)]
    if len(calls) < len(entries):
        issues["left out: entries that are not objects"] += len(entries) - len(calls)
    times = [t for one in calls if (t := integer(one.get("time_created_ns")))]
    base = min(times, default=0)
    header = _header(path, dump, calls, ranks) | {"baseTimeNanoseconds": base}
    events = (_event(one, ranks, base, issues) for one in calls)
    return ForeignTrace(header, batched(events), issues)


def _content(path: Path) -> Row:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error.strerror}") from error
    dump = _unpickled(path, data) if _PICKLE.match(data) else _decoded(path, data)
    if not isinstance(dump, dict):
        raise ForeignFileError(f"{path}: a pickle, but not a flight recorder dump")
    return dump


def _decoded(path: Path, data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise IngestError(
            f"{path}: broken flight recorder dump: {why}; dump it again"
        ) from error


class _Plain(pickle.Unpickler):
    """An unpickler that refuses classes."""

    def find_class(self, module_name: str, global_name: str) -> Any:  # noqa: ANN401 (of the base)
        raise pickle.UnpicklingError(
            f"{module_name}.{global_name} is not a plain value"
        )


def _unpickled(path: Path, data: bytes) -> object:
    import io

    try:
        _refuse_objects(path, data)
        return _Plain(io.BytesIO(data)).load()
    except IngestError:
        raise
    except _BROKEN_PICKLE as error:
        why = " ".join(str(error).split())
        raise IngestError(
            f"{path}: the pickle is truncated or broken: {why}; dump it again"
        ) from error


def _refuse_objects(path: Path, data: bytes) -> None:
    """Raise `IngestError` if a pickle does more than build plain values.

    Memo indices above the number of operations are refused as well, because memory is
    allocated for all of them.
    """
    for count, (operation, value, place) in enumerate(pickletools.genops(data)):
        if operation.name not in _BUILDING:
            raise IngestError(
                f"{path}: byte {place}: this pickle creates objects "
                f"({operation.name}), which is not allowed; if it is from a flight "
                f"recorder, {_AS_JSON}"
            )
        if operation.name.endswith("PUT") and isinstance(value, int) and value > count:
            raise pickle.UnpicklingError(f"byte {place}: a memo of number {value}")


def _ranks_of_groups(config: object) -> dict[str, list[int]]:
    """The ranks of each process group by name, if recorded."""
    found: dict[str, list[int]] = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        text = group.get("ranks") if isinstance(group, dict) else None
        try:
            ranks = msgspec.json.decode(str(text), type=list[int])
        except (msgspec.DecodeError, RecursionError):
            continue
        if ranks:
            found[str(name)] = sorted(set(ranks))
    return found


def _header(
    path: Path, dump: Row, calls: list[Row], ranks: dict[str, list[int]]
) -> dict[str, Any]:
    """The header; only the name of the file has the rank."""
    named = _RANK.search(path.name)
    backends = (as_text(one.get("profiling_name")).partition(":") for one in calls)
    info: dict[str, Any] = {
        "backend": next((name for name, colon, _ in backends if colon), None),
        "world_size": _world_size(dump.get("pg_config"), ranks),
        "rank": int(named[1]) if named else None,
    }
    about = {
        key: as_text(dump[key])
        for key in ("comm_lib_version", "nccl_version")
        if key in dump
    }
    return {
        "distributedInfo": {k: v for k, v in info.items() if v is not None},
        "source": {"tool": TOOL, "schemaVersion": as_text(dump["version"]), **about},
    }


def _world_size(config: object, ranks: dict[str, list[int]]) -> int | None:
    """The number of ranks, if the default group is recorded."""
    groups = config.items() if isinstance(config, dict) else ()
    of_all = (
        len(ranks.get(str(name), ()))
        for name, group in groups
        if isinstance(group, dict) and group.get("desc") == "default_pg"
    )
    return max(of_all, default=0) or None


def _event(
    entry: Row, ranks: dict[str, list[int]], base: int, issues: Counter[str]
) -> Event:
    name = as_text(entry.get("profiling_name")) or "unknown"
    called = integer(entry.get("time_created_ns")) or None
    if called is None:
        issues["kept without a time: no readable start"] += 1
    end = integer(entry.get("time_discovered_completed_ns")) or None
    group, described = _group(entry.get("process_group"))
    args = {
        "process_group": group,
        "description": described,
        "ranks": ranks.get(group),
        "sequence": _number(entry, "collective_seq_id", issues),
        "p2p_sequence": _number(entry, "p2p_seq_id", issues),
        "is_p2p": entry.get("is_p2p") is True,
        "is_over": end is not None or _is_over(name, entry),
        "state": as_text(entry.get("state")),
        **_amounts(entry, issues),
        "duration_ns": _duration(entry.get("duration_ms")),
        **_frames(entry.get("frames")),
        **_kept(entry),
    }
    is_interval = called is not None and end is not None and end >= called
    return Event(
        "X" if is_interval else "i",
        CATEGORY,
        name,
        0,
        group,
        None if called is None else called - base,
        (end or 0) - (called or 0) if is_interval else None,
        {key: value for key, value in args.items() if value is not None},
    )


def _is_over(name: str, entry: Row) -> bool:
    """Whether a Gloo call is over: it has no end time, but is retired."""
    return name.startswith("gloo:") and entry.get("retired") is True


def _group(group: object) -> tuple[str, str | None]:
    """The name and description of a process group."""
    if isinstance(group, (list, tuple)) and group:
        described = as_text(group[1]) if len(group) > 1 else ""
        return as_text(group[0]), None if described in ("", "undefined") else described
    return as_text(group), None


def _number(entry: Row, name: str, issues: Counter[str]) -> int | None:
    number = integer(entry.get(name))
    if number is None and name in entry:
        issues[f"read as none: {name}"] += 1
    return number


def _amounts(entry: Row, issues: Counter[str]) -> Row:
    """The elements of inputs and outputs, and the bytes of the larger side."""
    found: Row = {}
    size = []
    for way, name in (("input", "element_count"), ("output", "output_count")):
        sizes, types = entry.get(f"{way}_sizes"), entry.get(f"{way}_dtypes")
        count = _elements(sizes)
        if count is None and sizes is not None:
            issues[f"read as none: {way}_sizes"] += 1
        found[name] = count
        dtype = as_text(types[0]) if isinstance(types, (list, tuple)) and types else ""
        found[f"{way}_dtype"] = dtype or None
        if count is not None and dtype in _ELEMENT_BYTES:
            size.append(count * _ELEMENT_BYTES[dtype])
    return {**found, "bytes": max(size, default=None)}


def _elements(sizes: object) -> int | None:
    """The number of elements of a list of tensor sizes; None if it is invalid."""
    if not isinstance(sizes, (list, tuple)) or len(sizes) > _MOST_TENSORS:
        return None
    total = 0
    for shape in sizes:
        if not isinstance(shape, (list, tuple)) or len(shape) > _MOST_DIMENSIONS:
            return None
        count = 1
        for size in shape:
            if not isinstance(size, int) or size < 0:
                return None
            count = min(count * size, _MOST_ELEMENTS + 1)
        total += count
    return total if total <= _MOST_ELEMENTS else None


def _duration(milliseconds: object) -> int | None:
    """[ns] The duration of the kernel, if the process group timed it."""
    if not isinstance(milliseconds, (int, float)) or isinstance(milliseconds, bool):
        return None
    is_time = 0 <= milliseconds < _LONGEST_MS
    return round(milliseconds * _NANOSECONDS) if is_time else None


def _frames(frames: object) -> Row:
    """The stack of a call, innermost first, and the program's own line."""
    if not isinstance(frames, (list, tuple)):
        return {}
    stack = [
        (
            as_text(one.get("filename")),
            integer(one.get("line")),
            as_text(one.get("name")),
        )
        for one in islice(frames, _MOST_FRAMES)
        if isinstance(one, dict)
    ]
    own = next((one for one in stack if not _LIBRARY.search(one[0])), None)
    return {
        "place": None if own is None else _place(*own),
        "frames": [_place(*one) for one in stack] or None,
    }


def _place(file: str, line: int | None, function: str) -> str:
    """A line in Kineto's notation.

    >>> _place("train.py", 7, "step")
    'train.py(7): step'
    """
    return f"{file}({line}): {function}"


_CONVERTED = frozenset(
    (
        *("profiling_name", "process_group", "collective_seq_id", "p2p_seq_id"),
        *("is_p2p", "state", "duration_ms", "frames"),
    )
)


def _kept(entry: Row) -> Row:
    """All other fields: numbers, texts, and short lists."""
    return {
        as_text(key): as_text(value) if isinstance(value, str) else _plain(value)
        for key, value in entry.items()
        if key not in _CONVERTED
    }


def _plain(value: object) -> object:
    """A number, or a short list of numbers, texts or sizes; else None."""
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, (list, tuple)) or len(value) > _MOST_TENSORS:
        return None
    is_short = all(
        isinstance(one, int)
        or (isinstance(one, str) and one.isascii())
        or (
            isinstance(one, (list, tuple))
            and len(one) <= _MOST_DIMENSIONS
            and all(isinstance(size, int) for size in one)
        )
        for one in value
    )
    return value if is_short else None
