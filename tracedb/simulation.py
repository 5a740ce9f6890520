"""Simulate what is not stored: other rungs, beside a database, which stays as it is."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from tracedb import catalog
from tracedb.duck import scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

_RUNGS = "prediction.rung"
_numbers = count(1)


@contextmanager
def simulated(
    connection: duckdb.DuckDBPyConnection, rungs: Sequence[str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection on which all relations tell of these rungs, while the block lasts.

    What depends on the rungs is computed there, in memory; all else is the database's.
    """
    with beside(connection, rungs) as (cursor, _):
        rows = cursor.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
        trace_ids = [int(row[0]) for row in rows]
        for _ in catalog.compute(cursor, trace_ids, catalog.readers(_RUNGS)):
            pass
        yield cursor


@contextmanager
def beside(
    connection: duckdb.DuckDBPyConnection, rungs: Sequence[str]
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A connection to a second database, in memory, and the name of the first.

    There, relations that depend on the rungs are tables of its own, empty as yet.
    """
    stored = _quoted(str(scalar(connection, "SELECT current_database()")))
    name = f"simulation_{next(_numbers)}"
    with connection.cursor() as cursor:
        cursor.execute(f"ATTACH ':memory:' AS {name} (READ_WRITE)")
        try:
            cursor.execute(f"USE {name}")
            cursor.execute("SET VARIABLE rungs = $rungs", {"rungs": [*rungs]})
            catalog.create_over(cursor, stored, catalog.readers(_RUNGS))
            yield cursor, stored
        finally:
            cursor.execute(f"USE {stored}")
            cursor.execute(f"DETACH {name}")


def _quoted(name: str) -> str:
    """A name as SQL has it: a file's may have any character."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
