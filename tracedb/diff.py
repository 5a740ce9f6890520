"""Compare two runs of one database or of two.

The comparison is SQL (`question.diff_period` and the others) over two runs of one
database. This module copies the steps to compare, with their parts, into a small
database in memory, as runs 1 and 2.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tracedb import catalog
from tracedb.duck import registered
from tracedb.errors import QueryError
from tracedb.markup import table
from tracedb.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

PARTS = ("period", "kind", "path", "work")
"""The questions that compare two runs, without their prefix `diff_`."""

_PATHS = "critical_path.compared_path"
_COPIED = (_PATHS, "critical_path.compared_part", "critical_path.compared_work")
_TOLERANCE = 0.01
"""[1] Smallest limit of a check, as a share of the period."""
_UNLIKELY = 0.05
_RECORDED = {
    "has_stack": "Python stacks",
    "has_shapes": "shapes",
    "has_memory": "memory",
}
"""Flags of `question.recording`, and what they say was recorded."""
_WHERE = {
    "gpu": ("ran on", ""),
    "runtime": ("used", ""),
    "world_size": ("is of a job of", " ranks"),
}
"""Columns of `question.recording`, and the words around their values."""
_SHOWN = 8
_RUNS = f"""
SELECT DISTINCT run_id, name
FROM {_PATHS}
INNER JOIN staging.run USING (run_id)
ORDER BY run_id
"""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a run, or its steps of one number or rank."""

    connection: duckdb.DuckDBPyConnection
    path: str
    run: int
    name: str
    step: int | None = None
    rank: int | None = None
    has_steps: bool = True
    """Whether steps are compared; otherwise, whole traces are."""

    def __str__(self) -> str:
        """A description."""
        wanted = (("step", self.step), ("rank", self.rank))
        parts = [f"{name} {value}" for name, value in wanted if value is not None]
        return ", ".join([self.path, f"run {self.run} ({self.name})", *parts])

    @property
    def condition(self) -> str:
        """The condition on `critical_path.compared_path`."""
        wanted = {"run_id": self.run, "step": self.step, "rank": self.rank}
        return " AND ".join(
            f"{name} = {value}" for name, value in wanted.items() if value is not None
        )


@dataclass(frozen=True)
class Difference:
    """Two sides, and the answers of `question.diff_period` and the others by part."""

    sides: tuple[Side, Side]
    parts: dict[str, pl.DataFrame]
    caveats: tuple[str, ...] = ()
    """What else may make a difference, in words."""

    def __getitem__(self, part: str) -> pl.DataFrame:
        """The rows of a part."""
        return self.parts[part]

    def _repr_html_(self) -> str:
        """The change of the period, and the largest changes, for notebooks."""
        sides = " beside ".join(map(str, self.sides))
        shown = {"period": sides, "kind": "Critical path", "work": "Ops and GPU work"}
        return "".join(
            table(heading, self[part].head(_SHOWN).iter_rows(named=True))
            for part, heading in shown.items()
        )


def choose(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    *,
    run: int | None = None,
    step: int | None = None,
    rank: int | None = None,
) -> Side:
    """Choose a side; by default, the only run.

    Raises `QueryError` for an unknown run, step or rank, or if a choice is needed.
    """
    runs = runs_of(connection)
    if not runs:
        raise QueryError(f"{path}: no run with times to compare")
    listed = ", ".join(f"{number} ({name})" for number, name in runs.items())
    if run is None and len(runs) > 1:
        raise QueryError(f"{path}: has runs {listed}; choose one (--run)")
    number = next(iter(runs)) if run is None else run
    if number not in runs:
        raise QueryError(f"{path}: no run {number}; available: {listed}")
    chosen = Side(connection, path, number, runs[number], step, rank)
    for name, value in (("step", step), ("rank", rank)):
        _check(chosen, name, value)
    query = f"SELECT count(step) > 0 FROM {_PATHS} WHERE {chosen.condition}"
    ((has_steps,),) = connection.execute(query).fetchall()
    return replace(chosen, has_steps=has_steps)


def baseline_runs(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    run: int | None,
    without: int | None,
) -> list[Side]:
    """The runs of a baseline: the given one, or all but one.

    Raises `QueryError` if there is none.
    """
    others = [number for number in runs_of(connection) if number != without]
    numbers = [run] if run is not None or not others else others
    return [choose(connection, path, run=number) for number in numbers]


def runs_of(connection: duckdb.DuckDBPyConnection) -> dict[int, str]:
    """The names of the runs that can be compared, by number."""
    return dict(connection.execute(_RUNS).fetchall())


def _check(chosen: Side, name: str, value: int | None) -> None:
    """Raise `QueryError` if the run has no such step or rank."""
    query = f"SELECT DISTINCT {name} FROM {_PATHS} WHERE run_id = ? ORDER BY ALL"
    rows = chosen.connection.execute(query, [chosen.run]).fetchall()
    there = [str(number) for (number,) in rows if number is not None]
    if value is not None and str(value) not in there:
        listed = ", ".join(there) or "none"
        raise QueryError(f"{chosen.path}: no {name} {value}; available: {listed}")


def difference(one: Side, other: Side, parts: tuple[str, ...] = PARTS) -> Difference:
    """Compare two sides.

    Raises `QueryError` if only one of them has steps.
    """
    _check_steps(one, other)
    with _side_by_side(one, other) as own:
        catalog.create_only(
            own, *(f"question.diff_{part}" for part in parts), given=frozenset(_COPIED)
        )
        found = {p: own.sql(f"FROM question.diff_{p}(1, 2)").pl() for p in parts}
    return Difference((one, other), found, tuple(_caveats(one, other)))


def _caveats(one: Side, other: Side) -> Iterator[str]:
    """What else than the program may differ: where it ran, how it was recorded."""
    if (one.path, one.run) == (other.path, other.run):
        return
    first, second = _recorded(one), _recorded(other)
    for column, (before, after) in _WHERE.items():
        a, b = first[column], second[column]
        if None not in (a, b) and a != b:
            yield f"A {before} {a}{after}, B {before} {b}{after}"
    for flag, what in _RECORDED.items():
        if first[flag] != second[flag]:
            letter = "A" if first[flag] else "B"
            yield f"only {letter} was recorded with {what}, which takes host time"
    yield (
        "starts of one program are taken to differ as much as their steps do: "
        "`tracedb check` with several runs of a baseline learns by how much"
    )


def _recorded(side: Side) -> dict[str, Any]:
    """Where the traces of a run were recorded, and how."""
    texts = [f"{column}::VARCHAR" for column in _WHERE]
    parts = [
        *(f"string_agg(DISTINCT {text}, ', ' ORDER BY {text})" for text in texts),
        *(f"bool_or({flag})" for flag in _RECORDED),
    ]
    query = f"SELECT {', '.join(parts)} FROM question.recording WHERE run_id = ?"
    (row,) = side.connection.execute(query, [side.run]).fetchall()
    return dict(zip((*_WHERE, *_RECORDED), row, strict=True))


def _check_steps(one: Side, other: Side) -> None:
    if one.has_steps != other.has_steps:
        raise QueryError(
            f"{other if one.has_steps else one}: has no steps, and a whole trace does "
            "not compare with steps; mark them (`tracedb ingest --step-mark`), or take "
            "each trace as one step (`--one-step`)"
        )


def checked(baseline: Side, run: Side, tolerance: float | None) -> pl.DataFrame:
    """Check whether measures of a run grew by more than the noise of a baseline.

    The limit is the noise, but at least the tolerance, a share of the period. A rank
    test that finds no significant change also passes. Raises `QueryError` if the noise
    is unknown and no tolerance is given.
    """
    import polars as pl

    rows = difference(baseline, run, ("noise",))["noise"]
    if tolerance is None and rows["noise_ns"].null_count():
        raise QueryError(
            f"{baseline}: {counted(int(rows['a_step_count'][0]), 'step')}, but "
            "estimating the noise takes 4 or more; record more, or give a tolerance "
            "(--tolerance)"
        )
    return _with_limits(rows, tolerance).with_columns(
        pl.col("is_within") | (pl.col("p_value") >= _UNLIKELY).fill_null(value=False)
    )


def checked_by_starts(
    baseline: list[Side], run: Side, tolerance: float | None
) -> pl.DataFrame:
    """Check whether measures of a run grew by more than runs of a baseline differ.

    The limit is that noise, but at least the tolerance, as for `checked`. Raises
    `QueryError` if there are too few runs to know the noise and no tolerance is given.
    """
    for side in baseline:
        _check_steps(side, run)
    with _side_by_side(*baseline, run) as own:
        catalog.create_only(own, "question.start_noise", given=frozenset(_COPIED))
        query = "FROM question.start_noise(?)"
        rows = own.sql(query, params=[len(baseline) + 1]).pl()
    if tolerance is None and rows["noise_ns"].null_count():
        raise QueryError(
            f"{baseline[0].path}: {len(baseline)} runs, but learning how much starts "
            "differ takes 3 or more; record more, choose one (--baseline-run), or give "
            "a tolerance (--tolerance)"
        )
    return _with_limits(rows, tolerance)


def _with_limits(rows: pl.DataFrame, tolerance: float | None) -> pl.DataFrame:
    """The rows of a check with the limit of each change, and whether it is within."""
    import polars as pl

    floor = _TOLERANCE if tolerance is None else tolerance
    limit = pl.max_horizontal(
        pl.col("noise_ns").fill_null(0), (pl.first("a_ns") * floor).cast(pl.Int64)
    )
    return rows.with_columns(limit.alias("limit_ns")).with_columns(
        (pl.col("change_ns") <= pl.col("limit_ns")).alias("is_within")
    )


@contextmanager
def _side_by_side(*sides: Side) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory with the two sides as runs 1 and 2."""
    with duckdb.connect(config={"error_on_division_by_zero": "false"}) as own:
        for name in _COPIED:
            own.execute(f"CREATE SCHEMA IF NOT EXISTS {name.partition('.')[0]}")
            rows = [_rows(side, name, number) for number, side in enumerate(sides, 1)]
            with registered(own, "rows", pa.concat_tables(rows)):
                own.execute(f"CREATE TABLE {name} AS FROM rows")
        yield own


def _rows(side: Side, name: str, number: int) -> pa.Table:
    """A side's rows of a relation, renumbered as a run."""
    return side.connection.sql(
        f"SELECT * REPLACE ({number}::BIGINT AS run_id) FROM {name} "
        f"SEMI JOIN (FROM {_PATHS} WHERE {side.condition}) USING (trace_id, path_id)"
    ).to_arrow_table()
