"""Turn chunks of a Kineto trace (Chrome JSON) into rows of `raw.event`.

DuckDB's own reader takes chunks of plain events. It goes by way of doubles, which lose
up to 125 ns of an absolute time in microseconds, knows no fields but those it is told,
and refuses what is not UTF-8: chunks in which that matters take the exact way, field by
field as text. Both ways give the same rows.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import replace
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import duckdb
import msgspec
import pyarrow as pa

from tracedb.duck import registered
from tracedb.errors import IngestError
from tracedb.ingest.repair import mend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.ingest.events import Chunk, Issues

_FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args")
# A time that a double cannot hold to the nanosecond.
_FINE_TIME = re.compile(rb'"(?:ts|dur)"\s*:\s*"?[0-9]{13,}\.[0-9]*[1-9]')


def _nanoseconds(field: str) -> str:
    exact = f"try_cast(trim({field}, '\"') AS DECIMAL(22, 6))::DECIMAL(38, 6) * 1000"
    return f"try_cast({exact} AS BIGINT)"


_PLAIN = """
SELECT
    ph, cat, name, pid, tid,
    floor(ts)::BIGINT * 1000 + round((ts - floor(ts)) * 1000)::BIGINT AS ts_ns,
    floor(dur)::BIGINT * 1000 + round((dur - floor(dur)) * 1000)::BIGINT AS dur_ns,
    id, args::VARCHAR AS args,
    CASE
        WHEN bp IS NOT NULL AND s IS NOT NULL THEN json_object('bp', bp, 's', s)
        WHEN bp IS NOT NULL THEN json_object('bp', bp)
        WHEN s IS NOT NULL THEN json_object('s', s)
    END::VARCHAR AS other
FROM read_json(
    $path, format = 'array', maximum_object_size = $size, columns = {
        ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR',
        ts: 'DOUBLE', dur: 'DOUBLE', id: 'VARCHAR', bp: 'VARCHAR', s: 'VARCHAR',
        args: 'JSON'
    }
)
"""

_EXACT = f"""
SELECT
    ph ->> '$' AS ph, cat ->> '$' AS cat, name ->> '$' AS name, pid ->> '$' AS pid,
    tid ->> '$' AS tid, {_nanoseconds("ts")} AS ts_ns, {_nanoseconds("dur")} AS dur_ns,
    id ->> '$' AS id, args::JSON::VARCHAR AS args, other,
    (ts IS NOT NULL AND ts_ns IS NULL) OR (dur IS NOT NULL AND dur_ns IS NULL)
    AS has_no_time
FROM batch
"""


def parse(
    cursor: duckdb.DuckDBPyConnection, chunk: Chunk, issues: Issues, path: str
) -> pa.Table:
    """The rows of a chunk, without their numbers; bad times are NULL and counted.

    Raises `IngestError` where a chunk is JSON and yet cannot be stored.
    """
    if chunk.is_plain and not _FINE_TIME.search(chunk.text):
        table = _plainly(cursor, chunk)
        if table is not None:
            return table
    table = _exactly(cursor, chunk)
    if table is None:
        mended, done = mend(chunk.text)
        for kind, times in done.items():
            issues.add(f"mended: {kind}", chunk.place, times)
        table = _exactly(cursor, replace(chunk, text=mended))
    if table is None:
        last = chunk.first + chunk.count - 1
        raise IngestError(f"{path}: events {chunk.first} to {last} cannot be stored")
    return _without_bad_times(table, chunk, issues)


def store(
    connection: duckdb.DuckDBPyConnection,
    table: pa.Table,
    trace_id: int,
    first_event_id: int,
) -> None:
    """Insert rows, numbered in their order from `first_event_id` on."""
    numbers = pa.array(range(first_event_id, first_event_id + table.num_rows))
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


def _without_bad_times(table: pa.Table, chunk: Chunk, issues: Issues) -> pa.Table:
    """Exact rows, with the times that are no numbers counted."""
    bad = sum(table["has_no_time"].to_pylist())
    if bad:
        issues.add("kept without time: times that are no numbers", chunk.place, bad)
    return table.drop_columns(["has_no_time"])


def _plainly(cursor: duckdb.DuckDBPyConnection, chunk: Chunk) -> pa.Table | None:
    with _as_file(chunk.text) as path:
        try:
            query = cursor.sql(
                _PLAIN, params={"path": path, "size": len(chunk.text) + 1}
            )
            table = query.to_arrow_table()
        except duckdb.Error:
            return None
    return table if table.num_rows == chunk.count else None


def _exactly(cursor: duckdb.DuckDBPyConnection, chunk: Chunk) -> pa.Table | None:
    try:
        batch = _batch(
            msgspec.json.decode(chunk.text, type=list[dict[str, msgspec.Raw]])
        )
        with registered(cursor, "batch", batch):
            return cursor.sql(_EXACT).to_arrow_table()
    except (duckdb.Error, pa.ArrowInvalid):
        return None


def _batch(events: list[dict[str, msgspec.Raw]]) -> pa.Table:
    columns: dict[str, list[bytes | None]] = {name: [] for name in (*_FIELDS, "other")}
    for event in events:
        for name in _FIELDS:
            field = event.pop(name, None)
            columns[name].append(None if field is None else bytes(field))
        columns["other"].append(msgspec.json.encode(event) if event else None)
    return pa.table(
        {name: pa.array(texts, pa.string()) for name, texts in columns.items()}
    )


@contextmanager
def _as_file(text: bytes) -> Iterator[str]:
    """A path under which DuckDB can read a text; in memory where the system can."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("chunk")
        with os.fdopen(number, "wb") as file:
            file.write(text)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with NamedTemporaryFile(suffix=".json") as file:
        file.write(text)
        file.flush()
        yield file.name
