"""Simulate what is not stored: other methods, and scenarios, beside a database.

The database stays as it is: what depends on the variants is computed in memory.
Variants that it holds are not computed again, but taken from there.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from tracedb import batch_change, catalog, changed_work, overhead_library, twin
from tracedb.action import check_conflicts, check_effects
from tracedb.duck import connections, literal, quoted, scalar
from tracedb.scenario import check_matches, chosen_nodes, set_edits

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    import duckdb

    from tracedb.scenario import Edit

_VARIANTS = "prediction.variant"
_LIBRARY = "reference.library_sample"
_THERE = """
SELECT variant_id
FROM prediction.variant
LEFT JOIN prediction.method USING (method)
WHERE
    variant_id = 0
    OR (scenario = 'baseline' AND is_stored AND list_contains(?::VARCHAR[], method))
"""
"""The variants of a database that need not be computed for some methods."""
_KEYS = ("variant_id", "host_from")
"""What tells in a stored relation which variants its rows are for."""
_numbers = count(1)


@contextmanager
def simulated(  # noqa: PLR0913 (as `Database.simulate` has them)
    connection: duckdb.DuckDBPyConnection,
    methods: Sequence[str],
    edits: Sequence[Edit] = (),
    library: str | Path | None = None,
    *,
    allow_files: bool = False,
    only_steps: bool = False,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection on which all relations tell of these methods, while the block lasts.

    They are simulated for the baseline and for each scenario of the edits; the method
    `library` learns from that file. What depends on them is computed there, in memory,
    where it is not stored; all else is the database's. With `only_steps`, scenarios
    that only change times are evaluated by arrays (`tracedb.twin`): of these there are
    the times of steps alone. Raises `ScenarioError` for an edit that matches nothing,
    or two that set the same.
    """
    there = [int(n) for (n,) in connection.execute(_THERE, [[*methods]]).fetchall()]
    with beside(connection, methods, edits, allow_files=allow_files) as opened:
        cursor, stored = opened
        if edits:
            check_matches(cursor, edits)
            check_effects(cursor)
        if len({edit.scenario for edit in edits}) < len(edits):
            check_conflicts(cursor)
        if library is not None:
            overhead_library.load(cursor, library)
        twins = twin.variants(cursor, twin.only_times(edits) if only_steps else ())
        _fill(cursor, stored, there, [n for of in twins.values() for n in of])
        for base, of in twins.items():
            twin.evaluate(cursor, base, of)
        yield cursor


@contextmanager
def beside(
    connection: duckdb.DuckDBPyConnection,
    methods: Sequence[str],
    edits: Sequence[Edit] = (),
    *,
    allow_files: bool = False,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A connection to a second database, in memory, and the name of the first.

    There, relations that depend on the variants are tables of its own, empty as yet.
    """
    edits = changed_work.named(connection, edits)
    chosen = chosen_nodes(connection, edits, allow_files=allow_files)
    stored = quoted(str(scalar(connection, "SELECT current_database()")))
    name = f"simulation_{next(_numbers)}"
    with connection.cursor() as cursor:
        connections.add(cursor)
        cursor.execute(f"ATTACH ':memory:' AS {name} (READ_WRITE)")
        try:
            cursor.execute(f"USE {name}")
            cursor.execute("SET VARIABLE methods = $methods", {"methods": [*methods]})
            own = catalog.readers(_VARIANTS) | {_LIBRARY, *changed_work.TABLES}
            if edits:
                set_edits(cursor, edits, chosen)
                own |= catalog.chosen_by_edits()
            catalog.create_over(cursor, stored, own)
            if edits:
                _store(cursor, catalog.said_by_edits())
                _choose(cursor, stored, edits)
            yield cursor, stored
        finally:
            cursor.execute(f"USE {stored}")
            cursor.execute(f"DETACH {name}")


def _choose(
    cursor: duckdb.DuckDBPyConnection, stored: str, edits: Sequence[Edit]
) -> None:
    """Compute what edits choose, and what GPU work takes that they put elsewhere."""
    chosen = catalog.chosen_by_edits()
    behind = chosen & (
        catalog.readers(changed_work.TABLE) | catalog.readers(changed_work.OPS)
    )
    _compute(cursor, chosen - behind)
    if changed_work.are_changed(edits):
        changed_work.estimate(cursor, stored)
    _compute(cursor, behind)
    if changed_work.are_changed(edits):
        batch_change.check_ops(cursor)


def _store(cursor: duckdb.DuckDBPyConnection, views: Sequence[str]) -> None:
    """Make tables of views: many read them, and would take edits apart each time."""
    for view in views:
        cursor.execute(f"CREATE TABLE {view}_rows AS FROM {view}")
        cursor.execute(f"DROP VIEW {view}")
        cursor.execute(f"ALTER TABLE {view}_rows RENAME TO {view.partition('.')[2]}")


def _fill(
    cursor: duckdb.DuckDBPyConnection,
    stored: str,
    there: Sequence[int],
    twins: Sequence[int],
) -> None:
    """Compute the variants that are not there; take those that are from the first.

    Variants that arrays evaluate are left out; their results will have a table.
    """
    kept = {key: _values(cursor, key, there) for key in _KEYS}
    cursor.execute("SET VARIABLE stored = $there", {"there": [*there, *twins]})
    new = {key: _values(cursor, key) - kept[key] for key in _KEYS}
    own = _own_tables()
    computed = {name for name, key in own.items() if new[key]}
    filled = computed | {twin.RESULT} if twins else computed
    for name in own.keys() - filled:
        cursor.execute(f"DROP TABLE {name}")
        cursor.execute(f"CREATE VIEW {name} AS {_rows(stored, name, own[name], kept)}")
    if computed:
        _compute(cursor, computed)
    cursor.execute("RESET VARIABLE stored")
    for name in filled:
        cursor.execute(f"INSERT INTO {name} {_rows(stored, name, own[name], kept)}")


def _compute(cursor: duckdb.DuckDBPyConnection, names: Container[str]) -> None:
    rows = cursor.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
    for _ in catalog.compute(cursor, [int(row[0]) for row in rows], names):
        pass


def _own_tables() -> dict[str, str]:
    """The stored relations that depend on variants, each with its key of `_KEYS`."""
    readers = catalog.readers(_VARIANTS)
    return {
        relation.full_name: next(key for key in _KEYS if key in relation.columns)
        for relation in catalog.relations()
        if relation.full_name in readers and relation.is_computed_on_ingest
    }


def _values(
    cursor: duckdb.DuckDBPyConnection, key: str, among: Sequence[int] | None = None
) -> set[str]:
    """What the variants have of a key, as SQL has it."""
    query = (
        f"SELECT DISTINCT {key}::VARCHAR FROM prediction.variant "
        f"WHERE {key} IS NOT NULL AND (is_simulated OR variant_id = 0) "
        "AND ($among IS NULL OR list_contains($among::INTEGER[], variant_id))"
    )
    among = None if among is None else [*among]
    rows = cursor.execute(query, {"among": among}).fetchall()
    return {literal(value) for (value,) in rows}


def _rows(stored: str, name: str, key: str, kept: dict[str, set[str]]) -> str:
    """The rows of a stored relation that are of some variants."""
    values = ", ".join(sorted(kept[key])) or "NULL"
    return f"FROM {stored}.{name} WHERE {key} IN ({values})"
