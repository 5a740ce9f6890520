"""Read embedding tables from a file or a recorded step."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.errors import ShardingError
from tracedb.kernels.dtypes import element_bytes
from tracedb.row_file import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import duckdb

ENDINGS = (".csv", ".json", ".toml")
"""Suffixes of files of tables; all other files are databases."""
_COLUMNS = ("name", "rows", "width", "pooling", "dtype")
_OTHER_NAMES = {
    "num_embeddings": "rows",
    "embedding_dim": "width",
    "dim": "width",
    "pooling_factor": "pooling",
    "data_type": "dtype",
}
"""Alternative names of columns."""
_TYPES = ("float32", "float16", "bfloat16", "int8")
_MOST_TABLES = 10_000
_MOST_ELEMENTS = 2**46
_MOST_POOLING = 1e6

# Of each trace, the first step with the most tables; the whole trace without steps.
_LOOKED_UP = """
WITH
whole AS (
    SELECT trace_id, step_id, sum(tables) AS tables
    FROM question.embedding_table
    WHERE $rank IS NULL OR rank = $rank
    GROUP BY trace_id, step_id
    QUALIFY row_number() OVER (
        PARTITION BY trace_id ORDER BY step_id IS NULL, sum(tables) DESC, step_id
    ) = 1
)

SELECT looked.trace_id, op_id, looked.tables, rows, width, pooling, dtype, bags
FROM question.embedding_table AS looked
INNER JOIN whole
    ON
        looked.trace_id = whole.trace_id
        AND looked.step_id IS NOT DISTINCT FROM whole.step_id
ORDER BY looked.trace_id, op_id
"""


class Table(NamedTuple):
    """An embedding table; an example looks up `pooling` rows of it on average."""

    name: str
    rows: int
    width: int
    pooling: float
    dtype: str

    @property
    def element_size(self) -> int:
        """[B] The size of an element."""
        return element_bytes(self.dtype)


class Recorded(NamedTuple):
    """The tables that a run looked up, and how."""

    tables: list[Table]
    bags: int
    """The largest number of bags of a table: the batch size."""
    traces: int
    are_means: bool
    """Whether some tables are means of several that were looked up at once."""


def read_tables(path: str | Path) -> list[Table]:
    """The tables of a CSV, JSON or TOML file, in its order.

    Raises `ShardingError` with the row and what is wrong.
    """
    rows = read_rows(path, ShardingError)
    if not rows:
        raise ShardingError(
            f"{path}: no tables; a row needs {', '.join(_COLUMNS[1:4])}"
        )
    tables = [
        _checked(row, f"{path}, row {number}", number)
        for number, row in enumerate(rows, 1)
    ]
    _refuse_many(tables, str(path))
    return tables


def recorded_tables(
    connection: duckdb.DuckDBPyConnection, rank: int | None
) -> Recorded:
    """The tables that one step of each trace, or of one rank, looked up.

    Raises `ShardingError` if there are none, or if their rows were not recorded.
    """
    found = connection.execute(_LOOKED_UP, {"rank": rank}).fetchall()
    if not found:
        raise ShardingError(
            "this database has no embedding lookups on a GPU with recorded shapes; "
            "give a file of tables instead (CSV, JSON or TOML)"
        )
    tables = [*_of_ops(found)]
    _refuse_many(tables, "this database")
    bags = max(int(row[-1]) for row in found)
    traces = len({row[0] for row in found})
    return Recorded(tables, bags, traces, any(row[2] > 1 for row in found))


def _of_ops(found: Sequence[tuple[Any, ...]]) -> Iterator[Table]:
    for trace, op, count, rows, width, pooling, dtype, _ in found:
        if rows is None:
            raise ShardingError(
                f"op {op} of trace {trace} looks up a table whose number of rows was "
                "not recorded; give a file of tables instead (CSV, JSON or TOML)"
            )
        row = {"rows": rows, "width": width, "pooling": pooling, "dtype": dtype}
        for number in range(count):
            name = f"op {op}" if count == 1 else f"op {op}, table {number}"
            yield _checked(row | {"name": name}, name, number)


def _refuse_many(tables: Sequence[Table], place: str) -> None:
    if len(tables) > _MOST_TABLES:
        raise ShardingError(
            f"{place}: {len(tables):,} tables; the limit is {_MOST_TABLES:,}"
        )


def _checked(row: Mapping[str, Any], place: str, number: int) -> Table:
    """Convert a row to a table; raises `ShardingError` if it is invalid."""
    for name in row:
        if name not in _COLUMNS:
            other = _OTHER_NAMES.get(str(name).lower())
            hint = f"; here it is called {other}" if other else ""
            raise ShardingError(
                f"{place}: no column {name}{hint}; the columns are "
                f"{', '.join(_COLUMNS)}"
            )
    for name in _COLUMNS[1:4]:
        if row.get(name) is None:
            raise ShardingError(f"{place}: {name} is missing")
    dtype = str(row.get("dtype") or _TYPES[0])
    if dtype not in _TYPES:
        raise ShardingError(
            f"{place}: unknown dtype {dtype}; available: {', '.join(_TYPES)}"
        )
    rows, width = _whole(row, "rows", place), _whole(row, "width", place)
    if rows * width > _MOST_ELEMENTS:
        raise ShardingError(
            f"{place}: {rows:,} rows of {width:,} elements are more than 2^46 elements"
        )
    name = str(row.get("name") or f"table {number}")
    return Table(name, rows, width, _pooling(row["pooling"], place), dtype)


def _whole(row: Mapping[str, Any], name: str, place: str) -> int:
    """A size of a table, an integer of at least 1."""
    number = _number(row[name], f"{place}: {name}")
    if number < 1 or number != int(number):
        raise ShardingError(
            f"{place}: {name} is {row[name]}; it must be a whole number of at least 1"
        )
    return int(number)


def _pooling(value: object, place: str) -> float:
    number = _number(value, f"{place}: pooling")
    if not 0 < number <= _MOST_POOLING:
        raise ShardingError(
            f"{place}: pooling is {value}; it must be above 0 and at most "
            f"{_MOST_POOLING:.0e}"
        )
    return number


def _number(value: object, what: str) -> float:
    try:
        number = float("" if isinstance(value, bool) else str(value))
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ShardingError(f"{what} is {value!r}, which is not a number")
    return number
