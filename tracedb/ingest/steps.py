"""Steps that user ranges mark, in traces without the profiler's step marks.

Serving and benchmarks mark iterations with their own ranges, such as `step[DECODE
bs=32]`; or each step begins with a short range such as
`Optimizer.zero_grad#SGD.zero_grad`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracedb.duck import scalar
from tracedb.errors import IngestError
from tracedb.ingest.files import decoded_name
from tracedb.pattern import wrong_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_WITHOUT = """
SELECT path FROM staging.trace
WHERE
    trace_id IN (SELECT unnest($traces))
    AND trace_id NOT IN (SELECT trace_id FROM staging.step)
ORDER BY trace_id
"""
_MARKS = """
SELECT mark FROM staging.step_mark WHERE trace_id IN (SELECT unnest($traces))
GROUP BY mark ORDER BY sum(total_ns) DESC, mark LIMIT 3
"""


@dataclass(frozen=True)
class Mark:
    """User ranges that mark steps; a regular expression matches their whole names."""

    pattern: str
    is_begin: bool = False
    """Whether a step lasts from the begin of one range to that of the next."""

    def __str__(self) -> str:
        """Return the expression, as the user gave it."""
        return self.pattern


def chosen(step_mark: str | None, step_from: str | None) -> Mark | None:
    """The user's mark, if any; raises `IngestError` if both kinds are given."""
    if step_mark is not None and step_from is not None:
        raise IngestError(
            "ranges mark steps (`--step-mark`) or start them (`--step-from`); use only "
            "one of the two"
        )
    if step_from is not None:
        return Mark(decoded_name(step_from), is_begin=True)
    return None if step_mark is None else Mark(decoded_name(step_mark))


def mark(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], mark: Mark | None
) -> list[int]:
    """Store the mark of these traces' steps; return the affected traces."""
    if mark is None:
        return []
    rows = connection.execute(
        """
        UPDATE raw.trace SET step_mark = $mark, step_from = $from
        WHERE format = 'kineto' AND trace_id IN (SELECT unnest($traces))
        RETURNING trace_id
        """,
        {
            "mark": None if mark.is_begin else mark.pattern,
            "from": mark.pattern if mark.is_begin else None,
            "traces": list(trace_ids),
        },
    ).fetchall()
    return [int(row[0]) for row in rows]


def refuse_no_expression(mark: Mark) -> None:
    """Raise `IngestError` if a mark is not a regular expression, or too costly."""
    wrong = wrong_pattern(mark.pattern)
    if wrong:
        raise IngestError(f"step mark '{mark}' {wrong}")


def verify(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], mark: Mark | None
) -> None:
    """Raise `IngestError` if a trace has no step with the given mark."""
    traces = {"traces": list(trace_ids)}
    path = None if mark is None else scalar(connection, _WITHOUT, traces)
    if mark is None or path is None:
        return
    found = [f"'{row[0]}'" for row in connection.execute(_MARKS, traces).fetchall()]
    there = f"; existing ranges: {', '.join(found)}" if found else ""
    lacking = (
        "no two user ranges of a thread have"
        if mark.is_begin
        else ("no user range has")
    )
    raise IngestError(f"{path}: step mark '{mark}': {lacking} such a name{there}")
