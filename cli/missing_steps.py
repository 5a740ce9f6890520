"""Tell the person which traces have no steps, and what could mark them.

Most answers are of steps: one without rows is explained by this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    import tracedb

    from .output import Output

_MOST_MARKS = 3
_QUERY = """
SELECT trace_id, path, (
    SELECT list(mark ORDER BY total_ns DESC, mark)
    FROM staging.step_mark
    WHERE staging.step_mark.trace_id = staging.trace.trace_id
) AS marks
FROM staging.trace
WHERE format = 'kineto' AND trace_id NOT IN (SELECT trace_id FROM staging.step)
ORDER BY trace_id
"""


def write_rows(
    db: tracedb.Database, output: Output, rows: pl.DataFrame, brief: Sequence[str] = ()
) -> None:
    """Write the rows of an answer; if it has none, tell which traces have no steps."""
    output.rows(rows, brief)
    if rows.is_empty():
        tell_missing_steps(db)


def tell_missing_steps(db: tracedb.Database, among: set[int] | None = None) -> None:
    """Tell so a line a trace, of all traces or of those whose numbers are given."""
    for trace_id, path, marks in db.sql(_QUERY).iter_rows():
        if among is not None and trace_id not in among:
            continue
        found = ", ".join(f"'{mark}'" for mark in (marks or [])[:_MOST_MARKS])
        hint = f"for --step-mark there is {found}" if found else "nothing marks them"
        tell(f"{path}: no steps: {hint}")
