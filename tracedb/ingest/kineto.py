"""Load the events of a Kineto trace (Chrome JSON) into `raw.event`.

Every field is kept as the JSON text of the file, so that times are taken from their
decimal digits: a double loses up to 125 ns of an absolute time in microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import msgspec
import pyarrow as pa

from tracedb.duck import registered
from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb.ingest.files import TraceFile

_FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args")
_BATCH = 100_000

_INSERT = """
INSERT INTO raw.event
SELECT
    event_id, $trace_id, ph ->> '$', cat ->> '$', name ->> '$',
    pid ->> '$', tid ->> '$',
    (trim(ts, '"')::DECIMAL(38, 6) * 1000)::BIGINT,
    (trim(dur, '"')::DECIMAL(38, 6) * 1000)::BIGINT,
    id ->> '$', args, other
FROM batch
"""


def load(
    connection: duckdb.DuckDBPyConnection,
    file: TraceFile,
    trace_id: int,
    first_event_id: int,
) -> None:
    """Insert all events of a file, numbered from `first_event_id` in its order."""
    for start in range(0, len(file.items), _BATCH):
        items = file.items[start : start + _BATCH]
        try:
            batch = _batch(file.path, items, start, first_event_id)
            with registered(connection, "batch", batch):
                connection.execute(_INSERT, {"trace_id": trace_id})
        except (duckdb.ConversionException, pa.ArrowInvalid) as error:
            reason = str(error).splitlines()[0]
            place = f"events {start} to {start + len(items) - 1}"
            raise IngestError(f"{file.path}: {place}: {reason}") from error


def _batch(
    path: str, items: list[msgspec.Raw], start: int, first_event_id: int
) -> pa.Table:
    columns: dict[str, list[bytes | None]] = {name: [] for name in (*_FIELDS, "other")}
    for event in _events(path, items, start):
        for name in _FIELDS:
            field = event.pop(name, None)
            columns[name].append(None if field is None else bytes(field))
        columns["other"].append(msgspec.json.encode(event) if event else None)
    numbers = range(first_event_id + start, first_event_id + start + len(items))
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    return pa.table({"event_id": pa.array(numbers, pa.int64()), **texts})


def _events(
    path: str, items: list[msgspec.Raw], start: int
) -> Iterator[dict[str, msgspec.Raw]]:
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for position, item in enumerate(items, start):
        try:
            yield decoder.decode(item)
        except msgspec.DecodeError as error:
            raise IngestError(f"{path}: event {position}: {error}") from error
