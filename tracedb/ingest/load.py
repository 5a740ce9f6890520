"""Load one file: read, cut and parse in one thread, store in another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

import duckdb
import msgspec

from tracedb.duck import one_thread, scalar, text_file
from tracedb.errors import IngestError
from tracedb.ingest import (
    autograd,
    bounds,
    execution_graph,
    files,
    kineto,
    repeats,
)
from tracedb.ingest.decompress import Text, unreadable
from tracedb.ingest.events import Cutter
from tracedb.ingest.foreign import chakra, operations, reader_of
from tracedb.ingest.issues import Issues
from tracedb.ingest.json_text import entries, joined
from tracedb.ingest.onnx_runtime import ONNX_RUNTIME
from tracedb.ingest.paddle import PADDLE
from tracedb.ingest.prefetch import prefetch
from tracedb.ingest.unitrace import UNITRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tracedb.ingest.events import Chunk
    from tracedb.ingest.files import Source
    from tracedb.ingest.foreign import ForeignReader
    from tracedb.ingest.numbers import Numbers

_NUMBERING = {
    "kineto": "SELECT coalesce(max(event_id) + 1, ?) FROM raw.event",
    "et": "SELECT coalesce(max(et_node_id) + 1, ?) FROM raw.et_node",
}
_UNUSABLE = """
SELECT
    'kept in raw.event only: ' || CASE
        WHEN ph IS NULL THEN 'events without a phase'
        WHEN NOT regexp_full_match(ph, '[BEXiICbneSTpFstfPNODMVvRc(),=]')
            THEN 'events of an unknown phase'
        WHEN ph = 'X' AND dur_ns IS NULL THEN 'events without a duration'
        WHEN ts_ns IS NULL THEN 'events without a time'
        WHEN dur_ns < 0 THEN 'events with a negative duration'
        ELSE 'events without a process or a thread'
    END AS kind,
    count(*) AS occurrences,
    min(event_id) AS first_event_id
FROM raw.event
WHERE
    trace_id = $trace_id
    AND (
        -- `{}` after the last comma of a list holds nothing.
        ph IS NULL
        AND coalesce(name, cat, pid, tid, id, args::VARCHAR, other::VARCHAR) IS NOT NULL
        OR NOT regexp_full_match(ph, '[BEXiICbneSTpFstfPNODMVvRc(),=]')
        OR (ph IN ('B', 'E') AND ts_ns IS NULL)
        OR (ph = 'B' AND (pid IS NULL OR tid IS NULL))
        OR (
            ph = 'X'
            AND (
                coalesce(dur_ns, -1) < 0
                OR ts_ns IS NULL OR pid IS NULL OR tid IS NULL
            )
        )
    )
GROUP BY kind
ORDER BY ALL
"""
_ANY_BOUND = """
SELECT true FROM raw.event WHERE trace_id = $trace_id AND ph IN ('B', 'E') LIMIT 1
"""
_ILL_PAIRED = """
WITH
bound AS (
    SELECT event_id, ph, name
    FROM raw.event
    WHERE trace_id = $trace_id AND ph IN ('B', 'E') AND ts_ns IS NOT NULL
),

closed AS (
    SELECT slice.event_id, slice.name, bound.name AS end_name
    FROM staging.slice
    INNER JOIN bound ON slice.end_event_id = bound.event_id
    WHERE slice.trace_id = $trace_id
),

unpaired AS (
    SELECT ph, count(*) - (SELECT count(*) FROM closed) AS occurrences
    FROM bound
    GROUP BY ph
)

SELECT
    'kept in raw.event only: '
    || CASE ph WHEN 'B' THEN 'starts without an end' ELSE 'ends without a start' END,
    occurrences,
    NULL
FROM unpaired
WHERE occurrences > 0
UNION ALL
SELECT 'paired: ends with a start of another name', count(*), min(event_id)
FROM closed
WHERE end_name <> '' AND end_name <> name
HAVING count(*) > 0
ORDER BY ALL
"""
_LOADERS = {"kineto": kineto, "et": execution_graph}
_SECONDS_BETWEEN_REPORTS = 1.0


@dataclass(frozen=True)
class Loaded:
    """The format, header and event count of a loaded file."""

    format: str
    header: str
    count: int


class UnforeseenError(Exception):
    """DuckDB could not read events that were considered plain."""


def load(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    numbers: Numbers,
    progress: Callable[[str], None],
    *,
    is_careful: bool,
) -> Loaded:
    """Store all events or nodes of a file, and the issues found.

    `numbers` has the trace's id, and the first event id of an empty database. With
    `is_careful`, events that DuckDB cannot read are found and left out first.

    Raises `IngestError` if the file cannot be read or is empty, and `UnforeseenError`
    if it must be loaded again with `is_careful`.
    """
    head = files.head(source)
    reader = reader_of(source.path, head, source.part)
    if source.mapping:
        if reader is not operations:
            raise IngestError(
                f"{source.name}: not a table of operations, so there is nothing to map"
            )
        reader = operations.MappedReader(source.mapping)
    if reader is not None:
        return _load_foreign(connection, source, reader, numbers)
    if chakra.recognises(source.path, head):
        return _load_chakra(connection, source, numbers)
    try:
        size = source.path.stat().st_size
        file = source.path.open("rb")
    except OSError as error:
        raise unreadable(source.name, error) from error
    with file:
        text, meter = Text(source.name, file), _Meter(size, progress)
        return _load(connection, text, numbers, meter, is_careful=is_careful)


def _load_foreign(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    reader: ForeignReader,
    numbers: Numbers,
) -> Loaded:
    """Store a trace of another profiler, as equivalent events."""
    trace, trace_id = reader.read(source.path), numbers.trace_id
    begin = number = scalar(connection, _NUMBERING["kineto"], [numbers.event_id])
    for table in trace.batches:
        kineto.store_rows(connection, table, trace_id, number)
        number += table.num_rows
    issues = Issues()
    for kind, count in trace.issues.items():
        issues.add(kind, None, count)
    bounds.bound(connection, trace_id, issues)
    issues.store(connection, trace_id)
    return Loaded("kineto", _json(trace.header), number - begin)


def _load_chakra(
    connection: duckdb.DuckDBPyConnection, source: Source, numbers: Numbers
) -> Loaded:
    header, nodes = chakra.read_nodes(source.path)
    import polars as pl

    table = pl.Series("node", nodes, pl.Binary).cast(pl.String).to_frame()
    number = scalar(connection, _NUMBERING["et"], [numbers.event_id])
    execution_graph.store_rows(connection, table, numbers.trace_id, number)
    return Loaded("et", _json(header), table.height)


def _load(
    connection: duckdb.DuckDBPyConnection,
    text: Text,
    numbers: Numbers,
    meter: _Meter,
    *,
    is_careful: bool,
) -> Loaded:
    cutter, trace_id, dropped, tool = Cutter(text), numbers.trace_id, 0, ""
    begin = number = None
    with connection.cursor() as cursor:
        prepared = _prepared(cutter, cursor if is_careful else None)
        with prefetch(prepared) as chunks, text_file() as put, one_thread(connection):
            for chunk in chunks:
                if begin is None or number is None:
                    query = _NUMBERING[cutter.format]
                    begin = number = scalar(connection, query, [numbers.event_id])
                values = {
                    "path": put(chunk.text),
                    "size": len(chunk.text) + 1,
                    "trace_id": trace_id,
                    "first": number,
                }
                query = _LOADERS[cutter.format].insertion(chunk)
                _insert(connection, query, values, chunk.count)
                number += chunk.count
                meter.tell(text)
    if begin == number and cutter.issues.counts:
        kinds = "; ".join(cutter.issues.counts)
        raise IngestError(f"{text.path}: holds no event that can be read ({kinds})")
    if cutter.format == "kineto":
        dropped = repeats.drop(connection, trace_id, cutter.issues)
        autograd.categorise(connection, trace_id)
        for other in (ONNX_RUNTIME, PADDLE, UNITRACE):
            if not tool and other.categorise(connection, trace_id):
                tool = other.name
        # Bounds take times away, and count that themselves.
        _count(connection, _UNUSABLE, trace_id, cutter.issues)
        bounds.bound(connection, trace_id, cutter.issues)
        if scalar(connection, _ANY_BOUND, {"trace_id": trace_id}):
            _count(connection, _ILL_PAIRED, trace_id, cutter.issues)
    cutter.issues.store(connection, trace_id)
    count = (number or 0) - (begin or 0) - dropped
    header = cutter.header | ({"source": {"tool": tool}} if tool else {})
    return Loaded(cutter.format, _json(header), count)


def _json(header: object) -> str:
    return msgspec.json.encode(header).decode()


def _insert(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    values: dict[str, object],
    count: int,
) -> None:
    """Store `count` events; raises `UnforeseenError` if not all can be read."""
    try:
        stored = scalar(connection, query, values)
    except (duckdb.OperationalError, duckdb.InterruptException):
        raise  # no fault of the text's
    except duckdb.Error as error:
        raise UnforeseenError(str(error)) from error
    if stored != count:
        raise UnforeseenError(f"{stored} of {count} events were read")


def _prepared(
    cutter: Cutter, cursor: duckdb.DuckDBPyConnection | None
) -> Iterator[Chunk]:
    """Chunks that can be stored; with a cursor, that is tested first."""
    for chunk in cutter.chunks():
        is_kineto = cutter.format == "kineto"
        if cursor is None and (chunk.is_plain or not is_kineto):
            yield chunk
            continue
        if is_kineto:
            texts = kineto.normalised(chunk, cutter.issues)
        else:
            texts = entries(chunk.text) or []
        if cursor is not None:
            texts = _storable(cursor, cutter, texts, chunk.place)
        yield replace(chunk, text=joined(texts), count=len(texts), is_plain=False)


def _storable(
    cursor: duckdb.DuckDBPyConnection, cutter: Cutter, texts: list[bytes], place: int
) -> list[bytes]:
    """The events that DuckDB can read, found by halving; the others are counted."""
    if _LOADERS[cutter.format].can_store(cursor, joined(texts)):
        return texts
    if len(texts) == 1:
        cutter.issues.add("left out: events that cannot be stored", place)
        return []
    middle = len(texts) // 2
    halves = (texts[:middle], texts[middle:])
    return [t for half in halves for t in _storable(cursor, cutter, half, place)]


def _count(
    connection: duckdb.DuckDBPyConnection, query: str, trace_id: int, issues: Issues
) -> None:
    """Count the events that a query on a trace finds: kind, number, and the first."""
    found = connection.execute(query, {"trace_id": trace_id}).fetchall()
    for kind, count, first_event_id in found:
        if first_event_id is None:
            issues.add(kind, None, count)
        else:
            issues.add_event(kind, first_event_id, count)


def count_unread(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]
) -> None:
    """Count the values that staging could not read."""
    query = (
        "FROM staging.unread_value WHERE trace_id IN (SELECT unnest(?)) ORDER BY ALL"
    )
    found = connection.execute(query, [list(trace_ids)]).fetchall()
    for trace_id, field, count, event_id in found:
        issues, kind = Issues(), f"read as none: {field}"
        if event_id is None:
            issues.add(kind, None, count)
        else:
            issues.add_event(kind, event_id, count)
        issues.store(connection, trace_id)


class _Meter:
    """Reports progress, rate and remaining time of a long file."""

    def __init__(self, size: int, progress: Callable[[str], None]) -> None:
        self._size = size
        self._progress = progress
        self._begun = self._reported = monotonic()

    def tell(self, text: Text) -> None:
        now = monotonic()
        if now - self._reported < _SECONDS_BETWEEN_REPORTS or not text.read_bytes:
            return
        self._reported = now
        seconds = now - self._begun
        share = min(1.0, text.read_bytes / max(self._size, 1))
        rate = text.text_bytes / seconds / 1e6
        left = seconds * (1 - share) / share
        self._progress(
            f"reading {text.path}: {share:.0%}, {rate:.0f} MB/s, {left:.0f} s left"
        )
