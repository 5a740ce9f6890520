"""Small things that DuckDB's Python API leaves to its users."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import duckdb

from tracedb.errors import DatabaseError

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
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of the block, or on an error none of it.

    Raises `DatabaseError` where the system cannot write what was done.
    """
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except (duckdb.IOException, duckdb.TransactionException) as error:
        _roll_back(connection)
        line = str(error).splitlines()[0]
        raise DatabaseError(f"the database cannot be written: {line}") from error
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    # A commit that failed has rolled back already.
    with suppress(duckdb.Error):
        connection.execute("ROLLBACK")


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
