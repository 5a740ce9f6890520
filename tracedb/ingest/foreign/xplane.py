"""Decode XSpace files (`.xplane.pb`), which the profiler of JAX and TensorFlow writes.

A space has planes (the host, each device), a plane has lines (threads, streams), and a
line has events. Names and statistics are interned per plane (XLA's `xplane.proto`).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tracedb.protobuf import BYTES, FIXED64, VARINT, BrokenError, fields, signed

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from tracedb.ingest.foreign.event import Row

__all__ = ["Line", "Plane", "Span", "Spans", "planes"]

_PLANE, _HOSTNAME = 1, 4
_PICOSECONDS = 1_000
_UNPLACED = "left out: events with only a number of occurrences"


class Span(NamedTuple):
    """An event on a line; one without a duration is an instant."""

    name: str
    start_ns: int
    dur_ns: int | None
    args: Row


class Spans(Protocol):
    """Spans that may be decoded only when they are iterated."""

    def __len__(self) -> int:
        """How many there are at most."""

    def __iter__(self) -> Iterator[Span]:
        """Each of them; raises `BrokenError` or `struct.error` for a broken one."""


class Line(NamedTuple):
    """A thread of the host, or a stream or another lane of a device."""

    tid: int
    name: str
    begin_ns: int
    spans: Spans


class Plane(NamedTuple):
    """The host, a device, or facts about the recording, with its statistics."""

    number: int
    name: str
    lines: list[Line]
    stats: Row


class _Names(NamedTuple):
    """What a plane interns: names of statistics, and names and statistics of events."""

    stats: dict[int, str]
    events: dict[int, tuple[str, Row]]


def planes(data: bytes, issues: Counter[str]) -> Iterator[Plane]:
    """The planes of a space; raises `BrokenError` or `struct.error` if it is broken."""
    number = 0
    for field, layout, value in fields(data):
        if field == _PLANE and layout == BYTES:
            yield _plane(value, number, issues)
            number += 1
        elif field > _HOSTNAME or layout != BYTES:
            raise BrokenError("not a list of planes")


def _plane(data: bytes, number: int, issues: Counter[str]) -> Plane:
    found: dict[int, list[Any]] = {field: [] for field in range(1, 7)}
    for field, _, value in fields(data):
        found.setdefault(field, []).append(value)
    stats = {key: _name(value) for key, value in map(_entry, found[5])}
    events = {key: _metadata(value, stats) for key, value in map(_entry, found[4])}
    names = _Names(stats, events)
    return Plane(
        number,
        _text(found[2][-1]) if found[2] else "",
        [_line(line, names, issues) for line in found[3]],
        dict(_stat(stat, stats) for stat in found[6]),
    )


def _entry(data: bytes) -> tuple[int, bytes]:
    """The key and the message of an entry of a map."""
    found = {field: value for field, _, value in fields(data)}
    return found.get(1, 0), found.get(2, b"")


def _name(data: bytes) -> str:
    """The name of a statistic."""
    return next((_text(v) for field, _, v in fields(data) if field == 2), "")  # noqa: PLR2004


def _metadata(data: bytes, names: dict[int, str]) -> tuple[str, Row]:
    """The shorter name of an event, and what all events of that name share."""
    name = shown = ""
    shared: Row = {}
    for field, _, value in fields(data):
        match field:
            case 2:
                name = _text(value)
            case 4:
                shown = _text(value)
            case 5:
                key, content = _stat(value, names)
                shared[key] = content
    if shown and shown != name:
        shared["long_name"] = name
    return shown or name, shared


def _line(data: bytes, names: _Names, issues: Counter[str]) -> Line:
    tid = begin_ns = 0
    name = shown = ""
    spans = []
    for field, _, value in fields(data):
        match field:
            case 1:
                tid = value
            case 2:
                name = _text(value)
            case 3:
                begin_ns = signed(64, value)
            case 11:
                shown = _text(value)
            case 4:
                spans.append(value)
    return Line(tid, shown or name, begin_ns, _Spans(spans, begin_ns, names, issues))


class _Spans:
    """The spans of a line, decoded one after another, each time they are iterated."""

    def __init__(
        self, encoded: list[bytes], begin_ns: int, names: _Names, issues: Counter[str]
    ) -> None:
        self._encoded = encoded
        self._begin_ns = begin_ns
        self._names = names
        self._issues = issues

    def __len__(self) -> int:
        return len(self._encoded)

    def __iter__(self) -> Iterator[Span]:
        for data in self._encoded:
            span = _span(data, self._begin_ns, self._names)
            if span:
                yield span
            else:
                self._issues[_UNPLACED] += 1


def _span(data: bytes, begin_ns: int, names: _Names) -> Span | None:
    """An event; None if it only says how often something occurred."""
    key = start_ps = dur_ps = 0
    args: Row = {}
    for field, layout, value in fields(data):
        match field:
            case 4:
                stat, content = _stat(value, names.stats)
                args[stat] = content
            case 1:
                key = value
            case 2:
                start_ps = signed(64, value)
            case 3:
                dur_ps = signed(64, value)
            case 5 if layout == VARINT:
                return None
    name, shared = names.events.get(key, ("", {}))
    # Both ends are rounded down, so that what is nested stays nested.
    start_ns = start_ps // _PICOSECONDS
    dur_ns = (start_ps + dur_ps) // _PICOSECONDS - start_ns if dur_ps else None
    return Span(name, begin_ns + start_ns, dur_ns, {**shared, **args})


def _stat(data: bytes, names: dict[int, str]) -> tuple[str, object]:
    """The name and value of a statistic."""
    name, found = "", None
    for field, layout, value in fields(data):
        match field:
            case 1:
                name = names.get(value, str(value))
            case 2 if layout == FIXED64:
                found = struct.unpack("<d", value)[0]
            case 3:
                found = value
            case 4:
                found = signed(64, value)
            case 5:
                found = _text(value)
            case 6:
                found = f"{len(value)} bytes"
            case 7:
                found = names.get(value, str(value))
    return name, found


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
