"""The scenarios of `question.ranking`, which are simulated together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tracedb.duck import registered
from tracedb.whatif.scenario import Edit
from tracedb.whatif.selection import wrong_expression

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

_CANDIDATES = """
SELECT target, type, field, name, roofline_share
FROM candidate
WHERE total_ns > 0
QUALIFY
    field = ''
    OR row_number() OVER (
        PARTITION BY target, field ORDER BY path_ns DESC, total_ns DESC, name
    ) <= ?
ORDER BY ALL
"""


def ranked_edits(candidates: pl.DataFrame, most: int) -> list[Edit]:
    """The edits of `question.ranking`: each candidate at zero, half or roofline time.

    Of each kind of `question.ranking_candidate` with names, at most so many are taken,
    by time on critical paths.
    """
    with duckdb.connect() as own, registered(own, "candidate", candidates):
        rows = own.execute(_CANDIDATES, [most]).fetchall()
    return [edit for row in rows for edit in _edits(*row)]


def _edits(
    target: str, type_: str, field: str, name: str, roofline_share: float | None
) -> Iterator[Edit]:
    """The edits of one candidate, each in its own scenario."""
    thing = f"{target} {type_} {field} {name}"
    chosen = {"target": target, "type": type_ or None}
    if field:
        chosen[field] = _pattern(field, name)
    if target == "wait":
        yield Edit(scenario=f"{thing} unsync", **chosen)  # type: ignore[arg-type] # as the table has it
        return
    factors = {0.0, 0.5}
    if roofline_share is not None:
        factors.add(float(roofline_share))
    for factor in sorted(factors):
        yield Edit(scenario=f"{thing} x{factor}", factor=factor, **chosen)  # type: ignore[arg-type] # as the table has it


def _pattern(field: str, name: str) -> str:
    """A pattern that matches a name, even one that looks like a bad expression."""
    return name if wrong_expression(field, name) is None else f"?{name[1:]}"
