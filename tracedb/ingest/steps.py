"""Let the user say what marks the steps of a trace that has no marks of the profiler's.

Serving and benchmarks mark iterations in their own words, as in `step[DECODE bs=32]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from tracedb.duck import scalar
from tracedb.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def mark(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], mark: str | None
) -> list[int]:
    """Note what marks the steps of these traces; return those that are concerned."""
    if mark is None:
        return []
    rows = connection.execute(
        """
        UPDATE raw.trace SET step_mark = $mark
        WHERE format = 'kineto' AND trace_id IN (SELECT unnest($traces))
        RETURNING trace_id
        """,
        {"mark": mark, "traces": list(trace_ids)},
    ).fetchall()
    return [int(row[0]) for row in rows]


def refuse_no_expression(connection: duckdb.DuckDBPyConnection, mark: str) -> None:
    """Raise `IngestError` where a mark is no regular expression."""
    try:
        # An error would end the transaction; a cursor is not in it.
        with connection.cursor() as cursor:
            cursor.execute("SELECT regexp_full_match('', ?)", [mark]).fetchall()
    except duckdb.InvalidInputException as error:
        why = str(error).partition(": ")[2]
        raise IngestError(f"step mark '{mark}': no regular expression: {why}") from None


def verify(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], mark: str | None
) -> None:
    """Raise `IngestError` where a trace is to have steps, but none is marked."""
    traces = {"traces": list(trace_ids)}
    path = None if mark is None else scalar(connection, _WITHOUT, traces)
    if path is None:
        return
    found = [f"'{row[0]}'" for row in connection.execute(_MARKS, traces).fetchall()]
    there = f"; ranges that are there: {', '.join(found)}" if found else ""
    raise IngestError(
        f"{path}: step mark '{mark}': no user range has such a name{there}"
    )
