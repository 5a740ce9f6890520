"""Simulate what is not stored: other rungs, and scenarios, beside a database.

The database stays as it is: what depends on the variants is computed in memory.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from msgspec import structs

from tracedb import catalog, overhead_library
from tracedb.duck import connections, quoted, scalar
from tracedb.scenario import check_matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import duckdb

    from tracedb.scenario import Edit

_VARIANTS = "prediction.variant"
_LIBRARY = "raw.library_sample"
_numbers = count(1)


@contextmanager
def simulated(
    connection: duckdb.DuckDBPyConnection,
    rungs: Sequence[str],
    edits: Sequence[Edit] = (),
    library: str | Path | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection on which all relations tell of these rungs, while the block lasts.

    They are simulated for the baseline and for each scenario of the edits; the rung
    `library` learns from that file. What depends on them is computed there, in memory;
    all else is the database's. Raises `ScenarioError` for an edit that matches nothing.
    """
    with beside(connection, rungs, edits) as (cursor, _):
        if edits:
            check_matches(cursor)
        if library is not None:
            overhead_library.load(cursor, library)
        rows = cursor.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
        trace_ids = [int(row[0]) for row in rows]
        for _ in catalog.compute(cursor, trace_ids, catalog.readers(_VARIANTS)):
            pass
        yield cursor


@contextmanager
def beside(
    connection: duckdb.DuckDBPyConnection,
    rungs: Sequence[str],
    edits: Sequence[Edit] = (),
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A connection to a second database, in memory, and the name of the first.

    There, relations that depend on the variants are tables of its own, empty as yet.
    """
    stored = quoted(str(scalar(connection, "SELECT current_database()")))
    name = f"simulation_{next(_numbers)}"
    with connection.cursor() as cursor:
        connections.add(cursor)
        cursor.execute(f"ATTACH ':memory:' AS {name} (READ_WRITE)")
        try:
            cursor.execute(f"USE {name}")
            cursor.execute("SET VARIABLE rungs = $rungs", {"rungs": [*rungs]})
            _set_edits(cursor, edits)
            own = catalog.readers(_VARIANTS) | {_LIBRARY}
            catalog.create_over(cursor, stored, own)
            yield cursor, stored
        finally:
            cursor.execute(f"USE {stored}")
            cursor.execute(f"DETACH {name}")


def _set_edits(cursor: duckdb.DuckDBPyConnection, edits: Sequence[Edit]) -> None:
    if edits:
        rows = [structs.asdict(edit) for edit in edits]
        cursor.execute("SET VARIABLE edits = $edits", {"edits": rows})
