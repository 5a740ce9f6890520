"""Two small things that DuckDB's Python API leaves to its users."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


def scalar(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    values: Sequence[Any] | dict[str, Any] = (),
) -> Any:  # noqa: ANN401 (a value of any SQL type)
    """The first column of the first row, or None; it leaves no result unfinished."""
    rows = connection.execute(query, values).fetchall()
    return rows[0][0] if rows else None


@contextmanager
def registered(
    connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table
) -> Iterator[None]:
    """An Arrow table under a name that queries can read, for as long as the block."""
    connection.register(name, table)
    try:
        yield
    finally:
        # The rollback of an aborted transaction drops the name with all the rest.
        with suppress(duckdb.TransactionException):
            connection.unregister(name)
