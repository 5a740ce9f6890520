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
SELECT
    trace_id,
    path,
    list(mark ORDER BY total_ns DESC, mark) FILTER (suits = 'mark') AS marks,
    list(mark ORDER BY occurrences, total_ns DESC, mark) FILTER (suits = 'from')
    AS begins
FROM staging.trace
LEFT JOIN staging.step_mark USING (trace_id)
WHERE
    format = 'kineto'
    AND trace_id NOT IN (SELECT trace_id FROM staging.step)
    AND trace_id NOT IN (SELECT trace_id FROM staging.operation)
GROUP BY trace_id, path
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
    for trace_id, path, marks, begins in db.sql(_QUERY).iter_rows():
        if among is not None and trace_id not in among:
            continue
        # Ranges that cover steps say more than those that they begin with.
        option, names = ("mark", marks) if marks else ("from", begins or [])
        found = ", ".join(f"'{name}'" for name in names[:_MOST_MARKS])
        hint = (
            f"for --step-{option} there is {found}" if found else "nothing marks them"
        )
        tell(f"{path}: no steps: {hint}")
