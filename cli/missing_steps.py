"""Writes the rows of an answer; if it has none, what the traces lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.reasons import elsewhere, lacking, why_empty, without_steps
from tracedb.summary.words import KINDS, WAITS

from .terminal import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    import tracedb

    from .output import Output

_EXPLAINED = KINDS.keys() - {
    *("compute", "communication", "copy", "data_loading", "unexplained", "idle"),
}
"""Kinds of time whose names are not self-explanatory."""
_TRACES = """
SELECT trace_id, run_id, CASE WHEN rank >= 0 THEN rank END AS rank
FROM staging.trace
WHERE format <> 'et'
"""
_THREADS = """
SELECT
    thread_id,
    CASE
        WHEN count(*) OVER (PARTITION BY trace_id, role) = 1 THEN role
        -- Kineto's names begin with the number.
        WHEN contains(name, tid) THEN name
        ELSE concat_ws(' ', role, 'thread', tid, '(' || nullif(name, '') || ')')
    END
FROM staging.thread
"""


def write_rows(  # noqa: PLR0913 (the rows, and what to say of them)
    db: tracedb.Database,
    output: Output,
    rows: pl.DataFrame,
    brief: Sequence[str] = (),
    *,
    question: str = "",
    of: int = 0,
) -> None:
    """Write the rows of an answer; if it has none, explain why.

    `of` is the number of rows of the whole answer, where a part has none. A table has
    threads by name and traces by rank, no column that is empty throughout, and explains
    the kinds of time.
    """
    if output.format == "table":
        shown = _with_thread_names(db, rows.drop(_hidden_columns(rows)))
        shown = _with_ranks(db, shown)
        empty = [] if rows.is_empty() else _empty_columns(shown, brief)
        output.rows(shown.drop(empty), brief)
        _tell_empty_columns(db, rows, empty)
        _tell_kinds(rows, WAITS if question == "wait" else KINDS)
    else:
        output.rows(rows, brief)
    if rows.is_empty():
        for line in [elsewhere(of)] if of else why_empty(db, question):
            tell(line)


def _hidden_columns(rows: pl.DataFrame) -> set[str]:
    """Columns that a table leaves out: redundant ids, and the method `measured`."""
    hidden = {"step_id"} if "step" in rows.columns else set()
    if "method" in rows.columns and set(rows["method"]) == {"measured"}:
        hidden |= {"scenario", "method", "measured_ns"}
    return hidden & {*rows.columns}


def _empty_columns(rows: pl.DataFrame, brief: Sequence[str]) -> list[str]:
    """Columns without a value in any row, among those that a table shows."""
    shown = [name for name in brief if name in rows.columns] or rows.columns
    return [name for name in shown if rows[name].null_count() == rows.height]


def _tell_empty_columns(
    db: tracedb.Database, rows: pl.DataFrame, empty: list[str]
) -> None:
    """Name columns that were left out, and what the traces lack for them."""
    if empty:
        told = (f"empty in all rows: {', '.join(empty)}", *lacking(db, rows, {*empty}))
        tell("; ".join(told))


def _with_thread_names(db: tracedb.Database, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the roles, names or numbers of threads instead of their ids."""
    import polars as pl

    if "thread_id" not in rows.columns or rows.is_empty():
        return rows
    named = dict(db.sql(_THREADS).iter_rows())
    threads = [named.get(number) for number in rows["thread_id"]]
    place = rows.columns.index("thread_id")
    column = pl.Series("thread", threads, dtype=pl.String)
    return rows.insert_column(place, column).drop("thread_id", "role", strict=False)


def _with_ranks(db: tracedb.Database, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ranks instead of traces, where ranks tell these apart.

    The number of the only run, trace or rank is left out.
    """
    import polars as pl

    traces = db.sql(_TRACES)
    hidden = {"run_id"} if traces["run_id"].n_unique() <= 1 else set()
    if traces.height <= 1:
        hidden |= {"trace_id", "rank"}
    elif _is_told_by_rank(traces, of_runs="run_id" in rows.columns):
        hidden |= {"trace_id"}
        if "trace_id" in rows.columns and "rank" not in rows.columns:
            named = dict(traces.select("trace_id", "rank").iter_rows())
            ranks = [named.get(number) for number in rows["trace_id"]]
            place = rows.columns.index("trace_id")
            rows = rows.insert_column(place, pl.Series("rank", ranks, dtype=pl.Int64))
    return rows.drop(hidden, strict=False)


def _is_told_by_rank(traces: pl.DataFrame, *, of_runs: bool) -> bool:
    """Whether each trace has a rank of its own, in its run if `of_runs`."""
    keys = traces.select("run_id", "rank") if of_runs else traces.select("rank")
    return not traces["rank"].null_count() and keys.n_unique() == traces.height


def _tell_kinds(rows: pl.DataFrame, words: dict[str, str]) -> None:
    """Explain the kinds of time in a table, in the table's order."""
    for column in ("kind", "type"):
        if column in rows.columns:
            found = dict.fromkeys(rows[column])
            explained = _EXPLAINED if words is KINDS else words
            said = [f"{kind}: {words[kind]}" for kind in found if kind in explained]
            if said:
                tell("; ".join(said))


def tell_missing_steps(db: tracedb.Database, among: set[int] | None = None) -> None:
    """Write which traces have no steps; with `among`, only of these traces."""
    for line in without_steps(db, among):
        tell(line)
