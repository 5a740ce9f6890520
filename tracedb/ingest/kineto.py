"""Turn chunks of a Kineto trace (Chrome JSON) into rows of `raw.event`.

DuckDB's JSON reader takes chunks of plain events directly. It reads times as doubles,
which lose up to 125 ns of an absolute time in microseconds, reads only declared fields,
and rejects repeated fields. Events in which that matters are rewritten for it
(`normalised`), with times in nanoseconds. Both give the same rows.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from math import floor
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from tracedb.duck import can_read, registered
from tracedb.export.layout import FIELD as MOVED
from tracedb.ingest.json_text import REPEATED, entries, field_count

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from tracedb.ingest.events import Chunk
    from tracedb.ingest.issues import Issues

_FIELDS = ("ph", "cat", "name", "pid", "tid", "id", "args")
# [us] Below this, a double represents a time to the nanosecond.
FINE = 2.0**43
_HALF = 0.5
# The year 2043; sums of three times are within 64 bits.
_LARGEST_NS = 1 << 61
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_events = msgspec.json.Decoder(list[dict[str, Raw]])

_ROWS = """
FROM read_json(
    $path, format = 'array', maximum_object_size = $size, columns = {{
        ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR',
        id: 'VARCHAR', args: 'JSON', {columns}
    }}
)
"""
_PLAIN_ROWS = _ROWS.format(columns="ts: 'DOUBLE', dur: 'DOUBLE', bp: 'JSON', s: 'JSON'")
_NORMALISED_ROWS = _ROWS.format(columns="ts: 'BIGINT', dur: 'BIGINT', other: 'JSON'")

_INSERT = """
INSERT INTO raw.event
SELECT
    $first + row_number() OVER () - 1, $trace_id, ph, cat, name, pid, tid,
"""
_PLAIN = f"""{_INSERT}
    floor(ts)::BIGINT * 1000 + round((ts - floor(ts)) * 1000)::BIGINT,
    floor(dur)::BIGINT * 1000 + round((dur - floor(dur)) * 1000)::BIGINT,
    id, args,
    CASE
        WHEN bp IS NOT NULL AND s IS NOT NULL THEN json_object('bp', bp, 's', s)
        WHEN bp IS NOT NULL THEN json_object('bp', bp)
        WHEN s IS NOT NULL THEN json_object('s', s)
    END
{_PLAIN_ROWS}
"""
_NORMALISED = f"{_INSERT} ts, dur, id, args, other {_NORMALISED_ROWS}"


def insertion(chunk: Chunk) -> str:
    """The query that inserts a chunk's events.

    Its parameters are the `$path` of the chunk's text, a `$size` greater than its size,
    the `$trace_id`, and the number of the `$first` event.
    """
    return _PLAIN if chunk.is_plain else _NORMALISED


def can_store(cursor: duckdb.DuckDBPyConnection, text: bytes) -> bool:
    """Whether DuckDB can read the text of normalised events."""
    return can_read(cursor, f"SELECT max(COLUMNS(*)) {_NORMALISED_ROWS}", text)


def store_rows(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, trace_id: int, first: int
) -> None:
    """Insert rows of another reader, numbered from `first` on."""
    import pyarrow as pa

    numbers = pa.array(range(first, first + table.num_rows))
    with registered(connection, "batch", table.append_column("event_id", numbers)):
        connection.execute(
            """
            INSERT INTO raw.event
            SELECT event_id, $trace_id, ph, cat, name, pid, tid, ts_ns, dur_ns, id,
                args, other
            FROM batch
            """,
            {"trace_id": trace_id},
        )


def normalised(chunk: Chunk, issues: Issues) -> list[bytes]:
    """Events with each field once, times in nanoseconds, and the rest in `other`.

    Times that are not numbers, or too large, stay in `other` and are counted as issues.
    The last of repeated fields is kept; the others are counted as issues.
    """
    events = _events.decode(chunk.text)
    # If a repeated field was dropped, the quotes of its name are missing.
    if msgspec.json.encode(events).count(b'"') != chunk.text.count(b'"'):
        _count_repeated(chunk, events, issues)
    return [_normalised(event, chunk.place, issues) for event in events]


def _count_repeated(chunk: Chunk, events: list[dict[str, Raw]], issues: Issues) -> None:
    for text, event in zip(entries(chunk.text) or [], events, strict=True):
        repeated = field_count(text) - len(event)
        if repeated > 0:
            issues.add(REPEATED, chunk.place, repeated)


def _normalised(event: dict[str, Raw], place: int, issues: Issues) -> bytes:
    row = {name: event.pop(name) for name in _FIELDS if name in event}
    times = {name: event.pop(name) for name in ("ts", "dur") if name in event}
    for name, text in times.items():
        nanoseconds = _nanoseconds(bytes(text).strip(b'" '))
        if nanoseconds is not None:
            row[name] = Raw(b"%d" % nanoseconds)
        elif bytes(text) != b"null":
            event[name] = text
            is_number = _NUMBER.fullmatch(bytes(text).strip(b'" '))
            why = "out of range" if is_number else "that are not numbers"
            issues.add(f"kept without time: times {why}", place)
    if MOVED in event:
        row["tid"] = event.pop(MOVED)
    if event:
        row["other"] = Raw(msgspec.json.encode(event))
    return msgspec.json.encode(row)


def _nanoseconds(microseconds: bytes) -> int | None:
    if not _NUMBER.fullmatch(microseconds):
        return None
    number = float(microseconds)
    if abs(number) < FINE and not number.is_integer():
        return _rounded(number)
    try:
        exact = Decimal(microseconds.decode()) * 1000
        is_time = abs(exact) < _LARGEST_NS
    except ArithmeticError:
        return None
    return int(exact.to_integral_value(ROUND_HALF_UP)) if is_time else None


def _rounded(microseconds: float) -> int:
    """Round a time as `_PLAIN` does."""
    whole = floor(microseconds)
    part = (microseconds - whole) * 1000
    return whole * 1000 + int(part) + (part - int(part) >= _HALF)
