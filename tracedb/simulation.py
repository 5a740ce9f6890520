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
    stored = scalar(connection, "SELECT current_database()")
    beside = f"simulation_{next(_numbers)}"
    with connection.cursor() as cursor:
        cursor.execute(f"ATTACH ':memory:' AS {beside} (READ_WRITE)")
        try:
            cursor.execute(f"USE {beside}")
            cursor.execute("SET VARIABLE rungs = $rungs", {"rungs": [*rungs]})
            _compute(cursor, str(stored))
            yield cursor
        finally:
            cursor.execute(f"USE {stored}")
            cursor.execute(f"DETACH {beside}")


def _compute(cursor: duckdb.DuckDBPyConnection, stored: str) -> None:
    changed = catalog.readers(_RUNGS)
    catalog.create_over(cursor, stored, changed)
    rows = cursor.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
    for _ in catalog.compute(cursor, [int(row[0]) for row in rows], changed):
        pass
