"""Turn chunks of a PyTorch execution trace (ET) into rows of `raw.et_node`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from tracedb.duck import registered
from tracedb.errors import IngestError

if TYPE_CHECKING:
    import duckdb

    from tracedb.ingest.events import Chunk


def parse(chunk: Chunk, path: str) -> pa.Table:
    """The nodes of a chunk as text, without their numbers."""
    nodes = msgspec.json.decode(chunk.text, type=list[msgspec.Raw])
    try:
        return pa.table(
            {"node": pa.array([bytes(node) for node in nodes], pa.string())}
        )
    except pa.ArrowInvalid as error:
        raise IngestError(f"{path}: a node is not UTF-8: {error}") from error


def store(
    connection: duckdb.DuckDBPyConnection,
    table: pa.Table,
    trace_id: int,
    first_node_id: int,
) -> None:
    """Insert nodes, numbered in their order from `first_node_id` on."""
    numbers = pa.array(range(first_node_id, first_node_id + table.num_rows))
    with registered(connection, "batch", table.append_column("et_node_id", numbers)):
        connection.execute(
            "INSERT INTO raw.et_node SELECT et_node_id, $trace_id, node FROM batch",
            {"trace_id": trace_id},
        )
