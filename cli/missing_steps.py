"""Tell the person which traces have no steps, and what could mark them.

Most answers are of steps: one without rows is explained by this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    import tracedb

    from .output import Output

_MOST_MARKS = 3
_MOST_STEPS = 12
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
    """Write the rows of an answer; if it has none, tell why.

    The step that was asked for is not there, or traces have no steps at all.
    """
    output.rows(rows, brief)
    if rows.is_empty():
        _tell_other_steps(db, click.get_current_context().params.get("step"))
        tell_missing_steps(db)


def _tell_other_steps(db: tracedb.Database, step: int | None) -> None:
    """Tell which steps there are, where one was asked for that is not among them."""
    there = db.sql("SELECT DISTINCT step FROM staging.step ORDER BY step")["step"]
    if step is None or there.is_empty() or step in there:
        return
    listed = ", ".join(map(str, there.head(_MOST_STEPS)))
    more = f" and others up to {there[-1]}" if there.len() > _MOST_STEPS else ""
    tell(f"no step {step}; there are {listed}{more}")


def tell_missing_steps(db: tracedb.Database, among: set[int] | None = None) -> None:
    """Tell so a line a trace, of all traces or of those whose numbers are given."""
    for trace_id, path, marks in db.sql(_QUERY).iter_rows():
        if among is not None and trace_id not in among:
            continue
        found = ", ".join(f"'{mark}'" for mark in (marks or [])[:_MOST_MARKS])
        hint = f"for --step-mark there is {found}" if found else "nothing marks them"
        tell(f"{path}: no steps: {hint}")
