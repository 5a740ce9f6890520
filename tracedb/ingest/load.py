"""Load one file: read, cut and parse in one thread, store in the other."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from tracedb.duck import scalar
from tracedb.errors import IngestError
from tracedb.ingest import execution_graph, files, kineto
from tracedb.ingest.ahead import ahead
from tracedb.ingest.decompress import Text
from tracedb.ingest.events import Cutter, Issues
from tracedb.ingest.foreign import chakra, reader_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duckdb

    from tracedb.ingest.files import Source
    from tracedb.ingest.foreign import ForeignReader

_NUMBERING = {
    "kineto": "SELECT coalesce(max(event_id), 0) + 1 FROM raw.event",
    "et": "SELECT coalesce(max(et_node_id), 0) + 1 FROM raw.et_node",
}
_UNSTAGED = """
SELECT
    CASE
        WHEN ph IN ('B', 'E') THEN 'begin and end events, which have no duration'
        WHEN dur_ns IS NULL THEN 'events without a duration'
        WHEN ts_ns IS NULL THEN 'events without a time'
        WHEN dur_ns < 0 THEN 'events with a negative duration'
        ELSE 'events without a process or a thread'
    END AS kind,
    count(*)
FROM raw.event
WHERE
    trace_id = ?
    AND (
        ph IN ('B', 'E')
        OR (
            ph = 'X'
            AND (
                coalesce(dur_ns, -1) < 0
                OR ts_ns IS NULL OR pid IS NULL OR tid IS NULL
            )
        )
    )
GROUP BY kind
ORDER BY kind
"""
_STORE = {"kineto": kineto.store, "et": execution_graph.store}
_SECONDS_BETWEEN_REPORTS = 1.0


@dataclass(frozen=True)
class Loaded:
    """What a file was found to be."""

    format: str
    header: str
    count: int


def load(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    trace_id: int,
    progress: Callable[[str], None],
) -> Loaded:
    """Store all events or nodes of a file, and what had to be mended or left out.

    Raises `IngestError` where the file cannot be read, or holds nothing to read.
    """
    head = files.head(source)
    reader = reader_of(source.path, head)
    if reader is not None:
        return _load_foreign(connection, source, reader, trace_id)
    if chakra.recognises(source.path, head):
        return _load_chakra(connection, source, trace_id)
    try:
        size = source.path.stat().st_size
        with source.path.open("rb") as file:
            text = Text(source.name, file)
            return _load(connection, text, trace_id, _Meter(size, progress))
    except OSError as error:
        raise files.unreadable(source, error) from error


def _load_foreign(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    reader: ForeignReader,
    trace_id: int,
) -> Loaded:
    """Store a trace of another profiler, as events of the same meaning."""
    trace = reader.read(source.path)
    first = number = scalar(connection, _NUMBERING["kineto"])
    for table in trace.batches:
        kineto.store(connection, table, trace_id, number)
        number += table.num_rows
    issues = Issues()
    for kind, count in trace.issues.items():
        issues.add(kind, None, count)
    _store_issues(connection, trace_id, issues)
    return Loaded("kineto", _json(trace.header), number - first)


def _load_chakra(
    connection: duckdb.DuckDBPyConnection, source: Source, trace_id: int
) -> Loaded:
    header, nodes = chakra.read_nodes(source.path)
    table = pa.table({"node": pa.array(nodes, pa.string())})
    number = scalar(connection, _NUMBERING["et"])
    execution_graph.store(connection, table, trace_id, number)
    return Loaded("et", _json(header), table.num_rows)


def _load(
    connection: duckdb.DuckDBPyConnection, text: Text, trace_id: int, meter: _Meter
) -> Loaded:
    cutter = Cutter(text)
    number = None
    with connection.cursor() as cursor, ahead(_tables(cursor, cutter, text)) as tables:
        for table in tables:
            if number is None:
                number = scalar(connection, _NUMBERING[cutter.format])
            _STORE[cutter.format](connection, table, trace_id, number)
            number += table.num_rows
            meter.tell(text)
    if not cutter.count and cutter.issues.counts:
        kinds = "; ".join(cutter.issues.counts)
        raise IngestError(f"{text.path}: holds no event that can be read ({kinds})")
    if cutter.format == "kineto":
        _count_unstaged(connection, trace_id, cutter.issues)
    _store_issues(connection, trace_id, cutter.issues)
    return Loaded(cutter.format, _json(cutter.header), cutter.count)


def _json(header: object) -> str:
    return msgspec.json.encode(header).decode(errors="replace")


def _tables(
    cursor: duckdb.DuckDBPyConnection, cutter: Cutter, text: Text
) -> Iterator[pa.Table]:
    for chunk in cutter.chunks():
        if cutter.format == "kineto":
            yield kineto.parse(cursor, chunk, cutter.issues, text.path)
        else:
            yield execution_graph.parse(chunk, text.path)


def _count_unstaged(
    connection: duckdb.DuckDBPyConnection, trace_id: int, issues: Issues
) -> None:
    """Count the events that are kept but are no part of any layer above raw."""
    for kind, count in connection.execute(_UNSTAGED, [trace_id]).fetchall():
        issues.add(f"kept in raw.event only: {kind}", None, count)


def _store_issues(
    connection: duckdb.DuckDBPyConnection, trace_id: int, issues: Issues
) -> None:
    for kind, count in sorted(issues.counts.items()):
        connection.execute(
            "INSERT INTO raw.ingest_issue VALUES (?, ?, ?, ?, ?)",
            [
                trace_id,
                kind,
                count,
                issues.first_bytes[kind],
                f"{kind} ({count:,} times)" if count > 1 else kind,
            ],
        )


class _Meter:
    """Tells how far a long file is, at which rate, and how long it will still take."""

    def __init__(self, size: int, progress: Callable[[str], None]) -> None:
        self._size = size
        self._progress = progress
        self._begun = self._told = monotonic()

    def tell(self, text: Text) -> None:
        now = monotonic()
        if now - self._told < _SECONDS_BETWEEN_REPORTS or not text.read_bytes:
            return
        self._told = now
        seconds = now - self._begun
        share = min(1.0, text.read_bytes / max(self._size, 1))
        rate = text.text_bytes / seconds / 1e6
        left = seconds * (1 - share) / share
        self._progress(
            f"reading {text.path}: {share:.0%}, {rate:.0f} MB/s, {left:.0f} s left"
        )
