"""Steps in traces without the profiler's step marks, by the user's choice.

Serving and benchmarks mark iterations with their own ranges, such as `step[DECODE
bs=32]`; or each step begins with a short range such as
`Optimizer.zero_grad#SGD.zero_grad`. Where no range is a step, a call of a Python
function may be one (`server.py(300): step`, recorded with stacks), or one starts with a
launch (`cudaGraphLaunch`). What nothing divides can be one step.
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
    """What is a step: ranges or calls of a name, or the whole trace."""

    pattern: str | None
    """A regular expression for their whole names; None for the whole trace."""
    is_begin: bool = False
    """Whether a step lasts from the begin of one range to that of the next."""

    def __str__(self) -> str:
        """Return the choice in words."""
        return (
            "each trace is one step"
            if self.pattern is None
            else f"steps marked by '{self.pattern}'"
        )


def chosen(
    step_mark: str | None, step_from: str | None, *, one_step: bool
) -> Mark | None:
    """The user's mark, if any.

    Raises `IngestError` for more than one, and for an expression that is wrong or too
    costly.
    """
    if (step_mark is not None) + (step_from is not None) + one_step > 1:
        raise IngestError(
            "ranges mark steps (`--step-mark`) or start them (`--step-from`), or a "
            "whole trace is a step (`--one-step`); use only one of these"
        )
    if one_step:
        return Mark(None)
    pattern = step_mark if step_from is None else step_from
    if pattern is None:
        return None
    pattern = decoded_name(pattern)
    wrong = wrong_pattern(pattern)
    if wrong:
        raise IngestError(f"step mark '{pattern}' {wrong}")
    return Mark(pattern, is_begin=step_from is not None)


def mark(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], mark: Mark | None
) -> list[int]:
    """Store the mark of these traces' steps; return the affected traces."""
    if mark is None:
        return []
    rows = connection.execute(
        """
        UPDATE raw.trace
        SET step_mark = $mark, step_from = $from, is_one_step = $whole
        WHERE format = 'kineto' AND trace_id IN (SELECT unnest($traces))
        RETURNING trace_id
        """,
        {
            "mark": None if mark.is_begin else mark.pattern,
            "from": mark.pattern if mark.is_begin else None,
            "whole": mark.pattern is None,
            "traces": list(trace_ids),
        },
    ).fetchall()
    return [int(row[0]) for row in rows]


def verify(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], mark: Mark | None
) -> None:
    """Raise `IngestError` if a trace has no step with the given mark."""
    traces = {"traces": list(trace_ids)}
    path = None if mark is None else scalar(connection, _WITHOUT, traces)
    if mark is None or path is None:
        return
    if mark.pattern is None:
        raise IngestError(
            f"{path}: nothing on the host to be a step (no op, launch or wait)"
        )
    found = [f"'{row[0]}'" for row in connection.execute(_MARKS, traces).fetchall()]
    there = f"; existing ranges: {', '.join(found)}" if found else ""
    lacking = (
        "no two user ranges, ops, Python functions or calls of a thread have"
        if mark.is_begin
        else "no user range, op, Python function or call has"
    )
    raise IngestError(
        f"{path}: step mark '{mark.pattern}': {lacking} such a name{there}"
    )
