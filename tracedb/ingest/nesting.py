"""Find the innermost and the outermost op that is open when an op or a call begins.

Ops of a thread nest, but for rounding: a child may end microseconds after its parent.
The rule is therefore about beginnings only: an op lies inside the latest-begun op that
has not ended yet; a call also inside one that ends in the very nanosecond it begins.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tracedb.duck import registered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import duckdb

_SPANS = """
SELECT pid, tid, event_id, kind = 'op', is_annotation, start_ns, end_ns
FROM staging.host_event
WHERE trace_id = $trace_id AND kind IN ('op', 'call')
ORDER BY
    pid, tid, start_ns, kind = 'call', end_ns DESC, coalesce(external_id, 0), event_id
"""

_COLUMNS = ("event_id", "parent_event_id", "outermost_event_id", "top_event_id")

_BATCH = 50_000
_NONE = -1

Span = tuple[str, str, int, bool, bool, int, int]
Row = tuple[int, int, int, int | None]


class _OpenOp(NamedTuple):
    event_id: int
    end_ns: int
    top_event_id: int | None


def load(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Fill `raw.nesting` for a trace."""
    result = connection.execute(_SPANS, {"trace_id": trace_id})
    columns = tuple(array("q") for _ in _COLUMNS)
    for row in nest(_rows(result)):
        for column, value in zip(columns, row, strict=True):
            column.append(_NONE if value is None else value)
    table = pa.table([pa.array(column) for column in columns], names=list(_COLUMNS))
    with registered(connection, "nesting", table):
        connection.execute(
            "INSERT INTO raw.nesting SELECT event_id, $trace_id, parent_event_id, "
            "outermost_event_id, nullif(top_event_id, $none) FROM nesting",
            {"trace_id": trace_id, "none": _NONE},
        )


def _rows(result: duckdb.DuckDBPyConnection) -> Iterator[Span]:
    while rows := result.fetchmany(_BATCH):
        yield from rows


def nest(spans: Iterable[Span]) -> Iterator[Row]:
    """Yield event, parent, outermost and top op of each span that has a parent."""
    thread: tuple[str, str] | None = None
    stack: list[_OpenOp] = []
    for pid, tid, event_id, is_op, is_annotation, start, end in spans:
        if (pid, tid) != thread:
            thread, stack = (pid, tid), []
        _close(stack, start if is_op else start - 1)
        top = stack[-1].top_event_id if stack else None
        if stack:
            yield event_id, stack[-1].event_id, stack[0].event_id, top
        if is_op:
            is_top = top is None and not is_annotation
            stack.append(_OpenOp(event_id, end, event_id if is_top else top))


def _close(stack: list[_OpenOp], time: int) -> None:
    while stack and stack[-1].end_ns <= time:
        stack.pop()
