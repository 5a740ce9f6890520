"""Simulate methods and scenarios that a database does not store.

The database does not change: relations that depend on the variants are computed in
memory. Stored variants are read, not computed again.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING

import duckdb

from tracedb import catalog, overhead_library, usual_overheads
from tracedb.duck import connections, literal, quoted, scalar
from tracedb.errors import ScenarioError
from tracedb.whatif import batch_change, changed_work, twin
from tracedb.whatif.action import check_conflicts, check_effects, check_groups
from tracedb.whatif.scenario import check_matches, chosen_nodes, set_edits

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from pathlib import Path

    from tracedb.whatif.scenario import Edit

SHARED = (
    "critical_path.path",
    "critical_path.simulated_hop",
    "critical_path.simulated_interval",
    "question.scenario_summary",
)
"""Views that several answers about scenarios read, each after those that it reads."""
_BOUNDS = "reference.scenario_bound"
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
"""The stored variants of some methods."""
# Scenarios with an end of a band are named by it.
_PERIODS = r"""
SELECT
    regexp_replace(scenario, '^\w+ \d ', '') AS scenario,
    method,
    step_id,
    regexp_extract(scenario, '^\w+ \d') AS bound,
    predicted_ns
FROM question.scenario_effect
"""
_KEYS = ("variant_id", "host_from")
"""The columns of stored relations that identify variants."""
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
    estimated: str | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose relations are for these methods, within the block.

    They are simulated for the baseline and for each scenario of the edits; the method
    `library` learns from that file, or has the host times that ship with tracedb.
    Relations that depend on them are computed in memory unless stored; others are those
    of the database. With `only_steps`, arrays evaluate scenarios that change only
    durations (`twin`), and give only their step times. `estimated` is the quoted name
    of a database with the estimates of the same changes of work. Raises
    `ScenarioError` for an edit that matches nothing, or two that conflict.
    """
    there = [int(n) for (n,) in connection.execute(_THERE, [[*methods]]).fetchall()]
    with ExitStack() as stack:
        with _in_range() if edits else nullcontext():
            cursor, stored = stack.enter_context(
                beside(
                    *(connection, methods, edits),
                    allow_files=allow_files,
                    estimated=estimated,
                )
            )
            if edits:
                check_matches(cursor, edits)
                check_effects(cursor)
            if any(edit.to_ranks for edit in edits):
                check_groups(cursor)
            if len({edit.scenario for edit in edits}) < len(edits):
                check_conflicts(cursor)
            if library is not None:
                overhead_library.load(cursor, library)
            elif "library" in methods:
                usual_overheads.load(cursor)
            twins = twin.variants(cursor, twin.only_times(edits) if only_steps else ())
            _fill(cursor, stored, there, [n for of in twins.values() for n in of])
            for base, of in twins.items():
                twin.evaluate(cursor, base, of)
            ends = () if estimated else changed_work.bounded(cursor, edits)
        if ends:
            here = quoted(str(scalar(cursor, "SELECT current_database()")))
            with simulated(
                *(connection, methods, ends, library),
                allow_files=allow_files,
                only_steps=True,
                estimated=here,
            ) as bounds:
                bounds.execute(f"INSERT INTO {here}.{_BOUNDS} BY NAME {_PERIODS}")
        yield cursor


@contextmanager
def _in_range() -> Iterator[None]:
    """Say it if edited times exceed what nanoseconds can hold: 292 years."""
    try:
        yield
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise ScenarioError(
            "the edits make times longer than 292 years, all steps together; "
            "choose smaller factors, or fewer for one target"
        ) from error


@contextmanager
def beside(
    connection: duckdb.DuckDBPyConnection,
    methods: Sequence[str],
    edits: Sequence[Edit] = (),
    *,
    allow_files: bool = False,
    estimated: str | None = None,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """A connection to a second database, in memory, and the quoted name of the first.

    There, relations that depend on the variants are its own tables, still empty.
    `estimated` is as in `simulated`.
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
            own = catalog.readers(_VARIANTS) | {_LIBRARY, _BOUNDS, *changed_work.TABLES}
            if edits:
                set_edits(cursor, edits, chosen)
                own |= catalog.chosen_by_edits()
            catalog.create_over(cursor, stored, own)
            if edits:
                store(cursor, catalog.edit_views())
                _choose(cursor, stored, edits, estimated)
            yield cursor, stored
        finally:
            cursor.execute(f"USE {stored}")
            cursor.execute(f"DETACH {name}")


def _choose(
    cursor: duckdb.DuckDBPyConnection,
    stored: str,
    edits: Sequence[Edit],
    estimated: str | None,
) -> None:
    """Compute what edits select, and predict work that they change."""
    chosen = catalog.chosen_by_edits()
    behind = chosen & (
        catalog.readers(changed_work.TABLE) | catalog.readers(changed_work.OPS)
    )
    _compute(cursor, chosen - behind)
    if estimated is not None:
        for table in sorted(changed_work.TABLES):
            cursor.execute(f"INSERT INTO {table} FROM {estimated}.{table}")
    elif changed_work.are_changed(edits):
        changed_work.estimate(cursor, stored)
    _compute(cursor, behind)
    if changed_work.are_changed(edits):
        batch_change.check_ops(cursor)


def store(cursor: duckdb.DuckDBPyConnection, views: Sequence[str]) -> None:
    """Replace views of a simulation by tables, because many relations read them."""
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
    """Compute the missing variants; read the stored ones from the first database.

    Variants that arrays evaluate are left out; `twin.evaluate` adds their step times.
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
    """The stored relations that depend on variants, with their column of `_KEYS`."""
    readers = catalog.readers(_VARIANTS)
    return {
        relation.full_name: next(key for key in _KEYS if key in relation.columns)
        for relation in catalog.relations()
        if relation.full_name in readers and relation.is_computed_on_ingest
    }


def _values(
    cursor: duckdb.DuckDBPyConnection, key: str, among: Sequence[int] | None = None
) -> set[str]:
    """The values of a key for the variants, as SQL literals."""
    query = (
        f"SELECT DISTINCT {key}::VARCHAR FROM prediction.variant "
        f"WHERE {key} IS NOT NULL AND (is_simulated OR variant_id = 0) "
        "AND ($among IS NULL OR list_contains($among::INTEGER[], variant_id))"
    )
    among = None if among is None else [*among]
    rows = cursor.execute(query, {"among": among}).fetchall()
    return {literal(value) for (value,) in rows}


def _rows(stored: str, name: str, key: str, kept: dict[str, set[str]]) -> str:
    """A query for the rows of a stored relation that are kept."""
    values = ", ".join(sorted(kept[key])) or "NULL"
    return f"FROM {stored}.{name} WHERE {key} IN ({values})"
