"""Read logs of NCCL's inspector, which time the collectives of a process.

A plugin of NCCL (since 2.28) writes a JSON object for each completed collective, send
and receive, to a file per process, which may have several communicators. Each becomes
an event of the category `nccl_inspector`. Only verbose logs record when it ran
(`NCCL_INSPECTOR_DUMP_VERBOSE=1`); otherwise the event is an instant at the time of
writing, with the duration as an argument.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.errors import IngestError
from tracedb.ingest.foreign.event import (
    Event,
    ForeignTrace,
    as_text,
    batched,
    integer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tracedb.ingest.foreign.event import Row

__all__ = ["CATEGORY", "TOOL", "read", "recognises"]

CATEGORY = "nccl_inspector"
"""The `raw.event.cat` of the inspector's records."""
TOOL = "NCCL inspector"

_HEAD = re.compile(rb'\s*\{\s*"header"\s*:\s*\{\s*"(id|rank|comm_name)"\s*:')
_BLANK = re.compile(r"\s*")
_NEXT = re.compile(r"\n(?=\s*\{)")
_PARTS = ("coll", "p2p")
_NAMELESS = ("unknown", "")
_LONGEST_US = 2**51


class _Record(NamedTuple):
    """The record of one collective: communicator, metadata, kind and figures."""

    header: Row
    metadata: Row
    part: str
    perf: Row


def recognises(path: Path, head: bytes) -> bool:
    """Whether it begins like a record of the inspector; see `ForeignReader`."""
    del path
    return bool(_HEAD.match(head))


def read(path: Path) -> ForeignTrace:
    """Read the log of a process; see `ForeignReader`."""
    try:
        text = path.read_bytes().decode(errors="backslashreplace")
    except OSError as error:
        raise IngestError(f"{path}: cannot be read: {error.strerror}") from error
    issues: Counter[str] = Counter()
    records = list(_records(text, issues))
    if not records:
        raise IngestError(
            f"{path}: no complete record of the NCCL inspector; the log is truncated "
            "or broken"
        )
    spans = [_span(one) for one in records]
    base = min((span[0] for span in spans if span[0] is not None), default=0)
    events = (
        _event(record, span, base) for record, span in zip(records, spans, strict=True)
    )
    header = _header(records) | {"baseTimeNanoseconds": base}
    return ForeignTrace(header, batched(events), issues)


def _records(text: str, issues: Counter[str]) -> Iterator[_Record]:
    """All whole records; broken ones are counted and skipped."""
    decoder, place = json.JSONDecoder(), 0
    while (place := _passed(_BLANK, text, place)) < len(text):
        try:
            record, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            issues["left out: records that are truncated or broken"] += 1
            following = _NEXT.search(text, place)
            place = following.end() if following else len(text)
            continue
        found = _record(record)
        if found is None:
            issues["left out: records without a collective"] += 1
        else:
            yield found


def _passed(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


def _record(value: object) -> _Record | None:
    if not isinstance(value, dict):
        return None
    part = next(
        (part for part in _PARTS if isinstance(value.get(_perf(part)), dict)), ""
    )
    if not part:
        return None
    return _Record(
        _object(value.get("header")),
        _object(value.get("metadata")),
        part,
        _object(value[_perf(part)]),
    )


def _perf(part: str) -> str:
    return f"{part}_perf"


def _object(value: object) -> Row:
    return value if isinstance(value, dict) else {}


def _span(record: _Record) -> tuple[int | None, int | None]:
    """[ns] Begin and end of the kernels (one per channel); else the time of writing."""
    times = _object(record.perf.get("event_trace_ts"))
    kernels = times.get("kernel_events")
    channels = [_object(one) for one in kernels] if isinstance(kernels, list) else []
    starts = [t for one in channels if (t := _ns(one.get("kernel_start_ts")))]
    stops = [t for one in channels if (t := _ns(one.get("kernel_stop_ts")))]
    if starts and stops and min(starts) <= max(stops):
        return min(starts), max(stops)
    return _ns(record.metadata.get("dump_timestamp_us")), None


def _ns(microseconds: object) -> int | None:
    """[ns] Convert microseconds; None for an invalid value."""
    if not isinstance(microseconds, (int, float)) or isinstance(microseconds, bool):
        return None
    return round(microseconds * 1000) if 0 <= microseconds < _LONGEST_US else None


def _event(record: _Record, span: tuple[int | None, int | None], base: int) -> Event:
    header, perf, part = record.header, record.perf, record.part
    start, end = span
    name = as_text(perf.get(part)) or "unknown"
    args = {
        "process_group": as_text(header.get("id")),
        "description": _described(header.get("comm_name")),
        "rank": integer(header.get("rank")),
        "group_size": integer(header.get("n_ranks")),
        "node_count": integer(header.get("nnodes")),
        "sequence": integer(perf.get(f"{part}_sn")),
        "is_p2p": part == "p2p",
        "is_over": True,
        "state": "completed",
        "bytes": integer(perf.get(f"{part}_msg_size_bytes")),
        "duration_ns": _ns(perf.get(f"{part}_exec_time_us")),
        **_scalars(perf),
        **_scalars(record.metadata),
    }
    return Event(
        "i" if end is None else "X",
        CATEGORY,
        name,
        0,
        args["process_group"],
        None if start is None else start - base,
        None if end is None or start is None else end - start,
        {key: value for key, value in args.items() if value is not None},
    )


def _scalars(fields: Row) -> Row:
    """The fields with numbers and texts."""
    return {
        as_text(key): as_text(value) if isinstance(value, str) else value
        for key, value in fields.items()
        if isinstance(value, (str, int, float))
    }


def _described(name: object) -> str | None:
    """The communicator's name, if it has one."""
    return None if as_text(name) in _NAMELESS else as_text(name)


def _header(records: list[_Record]) -> dict[str, Any]:
    """The header; the rank is that in the largest communicator."""
    widest = max(records, key=lambda one: integer(one.header.get("n_ranks")) or 0)
    info = {
        "backend": "nccl",
        "rank": integer(widest.header.get("rank")),
        "world_size": integer(widest.header.get("n_ranks")),
    }
    version = records[0].metadata.get("inspector_output_format_version")
    source = {"tool": TOOL, "schemaVersion": version}
    about = {
        key: records[0].metadata.get(key) for key in ("hostname", "pid", "git_rev")
    }
    return {
        "distributedInfo": {k: v for k, v in info.items() if v is not None},
        "source": {**source, **about},
    }
