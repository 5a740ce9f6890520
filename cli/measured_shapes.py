"""The shapes of the GPU work in a database, as a plan to measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import tracedb
from tracedb.microbench import (
    COLUMNS,
    SHAPES,
    Case,
    MicrobenchError,
    Plan,
    expected_distinct,
)

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Iterator

RELATION = "prediction.kernel_problem"
# Copies have no type: their shapes are bytes.
_COLUMNS = ", ".join(
    [
        *("family", "op", "coalesce(dtype, 'int8') AS dtype"),
        *(f'"{name}"' for name in COLUMNS),
    ]
)


def plan_of(path: str) -> Plan:
    """Make a plan of all distinct shapes in a database.

    Shapes that one device cannot run, or that lack a size, are reported and left out.
    Raises QueryError if the database lacks the relation, MicrobenchError if it is
    empty.
    """
    with tracedb.open(path, read_only=True) as db:
        rows = db.sql(f"SELECT {_COLUMNS} FROM {RELATION} GROUP BY ALL ORDER BY ALL")
    shapes = list(rows.iter_rows(named=True))
    found = list(_cases(shapes))
    if len(found) < len(shapes):
        tell(
            f"{path}: skipped {len(shapes) - len(found)} shapes that are incomplete or "
            "of collectives"
        )
    if not found:
        raise MicrobenchError(f"{path}: no GPU work with known shapes")
    return Plan(f"shapes of {Path(path).name}", found)


def _cases(shapes: list[dict[str, Any]]) -> Iterator[Case]:
    """Yield the complete shapes."""
    for row in shapes:
        shape = {name: row[name] for name in SHAPES.get(row["family"], ())}
        if shape.get("distinct_rows", 0) is None:
            shape["distinct_rows"] = _even(shape)
        if shape and None not in shape.values():
            yield Case(row["family"], row["op"], row["dtype"], shape)


def _even(shape: dict[str, Any]) -> int | None:
    """Expected number of distinct rows if the lookups are uniformly distributed."""
    sizes = [shape[name] for name in ("tables", "table_rows", "bags", "pooling")]
    if None in sizes:
        return None
    tables, table_rows, bags, pooling = sizes
    return int(tables * expected_distinct(table_rows, bags * pooling))
