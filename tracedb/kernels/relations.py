"""What the models take from the SQL: hardware figures, and what work shapes are."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb

from tracedb import catalog
from tracedb.duck import frame, registered

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl


@cache
def declared(relation: str) -> tuple[dict[str, Any], ...]:
    """The rows of a relation of a database without traces."""
    with _declared(relation) as connection:
        return rows_of(connection, relation)


@contextmanager
def _declared(relation: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database without traces, with a relation for as long as the block runs."""
    with _counter().cursor() as connection:
        connection.begin()
        catalog.create_only(connection, relation, are_documented=False)
        yield connection
        connection.rollback()


def rows_of(
    connection: duckdb.DuckDBPyConnection, relation: str
) -> tuple[dict[str, Any], ...]:
    """The rows of a relation, each by the names of its columns."""
    found = connection.execute(f"FROM {relation}")
    names = [column[0] for column in found.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())


@cache
def element_flops(op: str) -> float:
    """[FLOP] Arithmetic per element of an op (`prediction.op_family`); else 1."""
    name = op.removeprefix("aten::").rstrip("_")
    with _declared("prediction.op_family") as connection:
        found = connection.execute(
            "FROM prediction.op_family SELECT element_flops "
            "WHERE regexp_full_match(?, pattern) ORDER BY ordinal LIMIT 1",
            [name],
        ).fetchone()
    return float(found[0]) if found else 1.0


def counted(relation: str, problems: pl.DataFrame) -> pl.DataFrame:
    """What a family's relation says of problems that are no ops of a trace, in order.

    Its last SELECT counts them, in the place of its expression `problem`. Columns are
    those of `prediction.op_problem`; what is missing is NULL.
    """
    counting = catalog.find(relation).counting
    missing = _read_of_problems(counting) - set(problems.columns)
    absent = "".join(f", NULL::DOUBLE AS {name}" for name in sorted(missing))
    with _counter().cursor() as connection:
        query = f"WITH problem AS (SELECT *{absent} FROM asked) {counting}"
        with registered(connection, "asked", problems):
            return frame(connection.sql(query))


@cache
def _read_of_problems(counting: str) -> frozenset[str]:
    """The columns of problems that a text names."""
    problem = catalog.find("prediction.op_problem").columns
    copied = catalog.find("prediction.gpu_copy").columns
    known = {*problem, *copied, "element_bytes", "element_flops"}
    return frozenset(known.intersection(re.findall(r"\w+", counting)))


@cache
def _counter() -> duckdb.DuckDBPyConnection:
    """A database without relations; one thread keeps rows in order."""
    return duckdb.connect(config={"threads": 1})
