"""Turn chunks of a PyTorch execution trace (ET) into rows of `raw.et_node`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import can_read, registered

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from tracedb.ingest.events import Chunk

_ROWS = "FROM read_json_objects($path, format = 'array', maximum_object_size = $size)"
_INSERT = f"""
INSERT INTO raw.et_node
SELECT $first + row_number() OVER () - 1, $trace_id, json {_ROWS}
"""


def insertion(_chunk: Chunk) -> str:
    """The query that inserts a chunk's nodes; parameters as in `kineto.insertion`."""
    return _INSERT


def can_store(cursor: duckdb.DuckDBPyConnection, text: bytes) -> bool:
    """Whether DuckDB can read the text of nodes."""
    return can_read(cursor, f"SELECT max(json) {_ROWS}", text)


def store_rows(
    connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame, trace_id: int, first: int
) -> None:
    """Insert nodes of another reader, numbered from `first` on."""
    with registered(connection, "batch", rows.with_row_index("et_node_id", first)):
        connection.execute(
            "INSERT INTO raw.et_node SELECT et_node_id, $trace_id, node FROM batch",
            {"trace_id": trace_id},
        )
