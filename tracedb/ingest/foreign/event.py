"""Shared parts of readers of foreign formats: events, times and batches."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

Row = dict[str, Any]

_BATCH = 50_000
# Sums of two times stay within 64 bits.
_MAX_INTEGER = 2**61
# Correlations are per process; those of further processes are offset by this.
_PROCESS_BITS = 40

_NUMBERS = ("ts_ns", "dur_ns")


class Event(NamedTuple):
    """An event as Kineto would have written it; fields as in `raw.event`."""

    ph: str
    cat: str | None
    name: str | None
    pid: object
    tid: object
    ts_ns: int | None
    dur_ns: int | None
    args: Row
    id: str | None = None
    other: Row | None = None


@dataclass(frozen=True)
class ForeignTrace:
    """A trace of another tool: its header, and lazy batches of events.

    `issues` counts problems by kind; it is complete once all batches have been read.
    """

    header: dict[str, Any]
    batches: Iterator[pa.Table]
    issues: Counter[str] = field(default_factory=Counter)


def batched(events: Iterable[Event]) -> Iterator[pa.Table]:
    """Batches of events as tables with the columns of `raw.event`."""
    events = iter(events)
    while part := list(islice(events, _BATCH)):
        yield _table(part)


def _table(events: list[Event]) -> pa.Table:
    import pyarrow as pa

    ph, cat, name, pid, tid, ts_ns, dur_ns, args, links, others = zip(
        *events, strict=True
    )
    columns = {
        # Files may have any type for each of these.
        "ph": [_text(value) for value in ph],
        "cat": [_text(value) for value in cat],
        "name": [_text(value) for value in name],
        "pid": [_text(value) for value in pid],
        "tid": [_text(value) for value in tid],
        "ts_ns": ts_ns,
        "dur_ns": dur_ns,
        "id": [_text(value) for value in links],
        "args": [_json(value) for value in args],
        "other": [None if value is None else _json(value) for value in others],
    }
    return pa.table(
        {
            key: pa.array(column, pa.int64() if key in _NUMBERS else pa.string())
            for key, column in columns.items()
        }
    )


def _json(args: Row) -> str:
    try:
        return msgspec.json.encode(args).decode()
    except OverflowError:
        # An integer of more than 64 bits.
        return json.dumps(args, default=str)


def _text(value: object) -> str | None:
    return None if value is None else as_text(value)


def integer(value: object) -> int | None:
    """An integer that cannot overflow the sums of queries, or None."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value) if len(value) < len(str(_MAX_INTEGER)) else None
    if isinstance(value, int) and abs(value) < _MAX_INTEGER:
        return int(value)
    return None


def as_text(value: object) -> str:
    """A value as text; for a container only its type, as it may contain itself.

    >>> as_text("rank"), as_text(3), as_text(None), as_text([[]])
    ('rank', '3', '', 'list')
    """
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if value is None:
        return ""
    return str(value) if isinstance(value, (int, float)) else type(value).__name__


def take_span(row: Row, issues: Counter[str]) -> tuple[int | None, int | None]:
    """Remove begin and duration from a row, and count problems.

    Unreadable values stay in the row, which becomes the event's arguments. An event
    with a missing or negative duration is kept, but is not an interval.
    """
    start, end = integer(row.get("start")), integer(row.get("end"))
    if start is not None:
        del row["start"]
    else:
        issues["kept without a time: no readable start"] += 1
    if start is None or end is None:
        if start is not None:
            issues["kept without a duration: no readable end"] += 1
        return start, None
    del row["end"]
    if end < start:
        issues["kept with a negative duration: ends before it begins"] += 1
    return start, end - start


_ENDS = {"H": "Host", "D": "Device", "P": "Device"}
"""Ends of copies by their first letters; a peer is a device."""


def copy_name(source: str, target: str) -> str:
    """The name of a copy as Kineto writes it, from the words for its ends.

    >>> copy_name("h", "D"), copy_name("peer", "peer")
    ('Memcpy HtoD (Host -> Device)', 'Memcpy PtoP (Device -> Device)')
    """
    one, other = source[0].upper(), target[0].upper()
    return f"Memcpy {one}to{other} ({_ENDS[one]} -> {_ENDS[other]})"


def present(row: Row) -> Row:
    """The columns with a value."""
    return {key: value for key, value in row.items() if value is not None}


def renamed(row: Row, names: dict[str, str]) -> Row:
    """Remove columns from a row, and return them under Kineto's names."""
    taken = {new: row.pop(old, None) for old, new in names.items()}
    return present(taken)


def metadata(kind: str, pid: object, tid: object, args: Row) -> Event:
    """A metadata event such as `thread_name` or `process_name`."""
    return Event("M", None, kind, pid, tid, None, None, args)


class Correlations:
    """Correlation ids that are unique across processes."""

    def __init__(self) -> None:
        """Start without processes."""
        self._processes: dict[object, int] = {}

    def number(self, process: object, correlation: object) -> int | None:
        """The unique id of a process's correlation; unchanged for the first process."""
        known = integer(correlation)
        if not known or process is None:
            return known or None
        place = self._processes.setdefault(process, len(self._processes))
        return known + (place << _PROCESS_BITS)
