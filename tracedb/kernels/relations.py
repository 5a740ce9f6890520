"""What the models take from the SQL: hardware figures, arithmetic per element."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from tracedb import catalog

if TYPE_CHECKING:
    from numpy.typing import NDArray


@cache
def declared(relation: str) -> tuple[dict[str, Any], ...]:
    """The rows of a relation of a database without traces."""
    with duckdb.connect() as connection:
        catalog.create_only(connection, relation)
        return rows_of(connection, relation)


def rows_of(
    connection: duckdb.DuckDBPyConnection, relation: str
) -> tuple[dict[str, Any], ...]:
    """The rows of a relation, each by the names of its columns."""
    found = connection.execute(f"FROM {relation}")
    names = [column[0] for column in found.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())


@cache
def _flops(op: str) -> float:
    name = op.removeprefix("aten::").rstrip("_")
    families = sorted(declared("prediction.op_family"), key=lambda row: row["ordinal"])
    fitting = (row for row in families if re.fullmatch(row["pattern"], name))
    return float(next((row["element_flops"] for row in fitting), 1))


def element_flops(ops: NDArray[np.str_]) -> NDArray[np.float64]:
    """[FLOP] Arithmetic per element of each op (`prediction.op_family`); else 1."""
    names, codes = np.unique(ops, return_inverse=True)
    return np.array([_flops(str(name)) for name in names], dtype=float)[codes]
