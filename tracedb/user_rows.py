"""The rows of a user's query as a data frame, checked for values that it cannot hold.

polars does not fail on such values: it ends the process, or the thread that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracedb.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import polars as pl

_UNKNOWN = frozenset({"interval", "union"})
"""Types that polars does not have."""
_NESTED = frozenset({"array", "list", "map", "struct"})
_DATES = (-719_162, 2_932_896)
"""[days] The years 1 to 9999, which Python's dates can hold, from 1970 on."""
_DAY = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6}
"""A day by the unit of a time; times in ns reach only to the year 2262."""


def user_rows(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a user's query, in which columns may share a name.

    Raises `QueryError` for a column that a data frame cannot hold.
    """
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if not _is_known(kind):
            raise _no_place(name, f"the type {kind}")
    rows: pl.DataFrame = relation.pl()
    for column in rows:
        if any(_is_out_of_range(leaf) for leaf in _leaves(column)):
            raise _no_place(column.name, "a time beyond the years 1 to 9999")
    return rows


def _no_place(name: str, what: str) -> QueryError:
    return QueryError(
        f"column {name}: a data frame cannot hold {what}; cast the column to VARCHAR"
    )


def _is_known(kind: Any) -> bool:  # noqa: ANN401 (DuckDB types children as Any)
    """Whether polars has a type, and the types within it."""
    if kind.id in _NESTED:
        # A child may also be a number, such as an array's size.
        return all(_is_known(c) for _, c in kind.children if hasattr(c, "id"))
    return kind.id not in _UNKNOWN


def _leaves(column: pl.Series) -> Iterator[pl.Series]:
    """The columns of plain values within a column."""
    import polars as pl

    if isinstance(column.dtype, pl.List | pl.Array):
        yield from _leaves(column.explode())
    elif isinstance(column.dtype, pl.Struct):
        for field in column.struct.unnest():
            yield from _leaves(field)
    elif hasattr(pl, "Map") and isinstance(column.dtype, pl.Map):  # before 2.0 a list
        yield from _leaves(column.map.entries())
    else:
        yield column


def _is_out_of_range(column: pl.Series) -> bool:
    """Whether a column has dates or times that Python's cannot hold."""
    import polars as pl

    if not isinstance(column.dtype, pl.Date | pl.Datetime):
        return False
    if isinstance(column.dtype, pl.Date):
        day = 1
    elif column.dtype.time_unit in _DAY:
        day = _DAY[column.dtype.time_unit]
    else:
        return False
    first, last = _DATES
    values = column.to_physical()
    # Missing values are skipped.
    return bool(((values < first * day) | (values >= (last + 1) * day)).any())
