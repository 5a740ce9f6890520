"""Load the nodes of a PyTorch execution trace (ET) into `raw.et_node`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tracedb.duck import registered
from tracedb.errors import IngestError

if TYPE_CHECKING:
    import duckdb

    from tracedb.ingest.files import TraceFile


def load(
    connection: duckdb.DuckDBPyConnection,
    file: TraceFile,
    trace_id: int,
    first_node_id: int,
) -> None:
    """Insert all nodes of a file, numbered from `first_node_id` in its order."""
    numbers = pa.array(range(first_node_id, first_node_id + len(file.items)))
    try:
        nodes = pa.array([bytes(item) for item in file.items], pa.string())
    except pa.ArrowInvalid as error:
        raise IngestError(f"{file.path}: a node is not UTF-8: {error}") from error
    batch = pa.table({"et_node_id": numbers, "node": nodes})
    with registered(connection, "batch", batch):
        connection.execute(
            "INSERT INTO raw.et_node SELECT et_node_id, $trace_id, node FROM batch",
            {"trace_id": trace_id},
        )
