"""Find the innermost and the outermost op that is open when an op or a call begins.

Ops of a thread nest, but for rounding: a child may end microseconds after its parent.
The rule is therefore about beginnings only: an op lies inside the latest-begun op that
has not ended yet; a call also inside one that ends in the very nanosecond it begins.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from tracedb.duck import registered

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

# Only where ops begin and end together their identifiers tell which one is outside;
# identifiers are in the arguments, which take longer to read than all the rest.
_SPANS = """
WITH span AS (
    SELECT pid, tid, event_id, kind = 'op' AS is_op, is_annotation, start_ns, end_ns
    FROM staging.host_event
    WHERE trace_id = $trace_id AND kind IN ('op', 'call')
),

tie AS (
    SELECT unnest(event_ids) AS event_id
    FROM (
        SELECT list(event_id) AS event_ids
        FROM span
        GROUP BY pid, tid, start_ns, end_ns, is_op
        HAVING count(*) > 1
    )
),

identified AS (
    SELECT event_id, external_id
    FROM staging.host_event
    WHERE event_id IN (SELECT event_id FROM tie)
)

SELECT pid, tid, event_id, is_op, is_annotation, start_ns, end_ns
FROM span
LEFT JOIN identified USING (event_id)
ORDER BY pid, tid, start_ns, NOT is_op, end_ns DESC, coalesce(external_id, 0), event_id
"""

_BATCH = 50_000
_NONE = -1


def load(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Fill `raw.nesting` for a trace."""
    nesting = _Nesting()
    spans = connection.sql(_SPANS, params={"trace_id": trace_id})
    for batch in spans.to_arrow_reader(_BATCH):
        nesting.add(zip(*(column.to_pylist() for column in batch), strict=True))
    with registered(connection, "nesting", nesting.table()):
        connection.execute(
            "INSERT INTO raw.nesting SELECT event_id, $trace_id, parent_event_id, "
            "outermost_event_id, nullif(top_event_id, $none) FROM nesting",
            {"trace_id": trace_id, "none": _NONE},
        )


Span = tuple[str, str, int, bool, bool, int, int]


def _numbers() -> array[int]:
    return array("q")


@dataclass
class _Nesting:
    """What is open on the thread at hand, and what was found so far."""

    event_ids: array[int] = field(default_factory=_numbers)
    parents: array[int] = field(default_factory=_numbers)
    outermost: array[int] = field(default_factory=_numbers)
    tops: array[int] = field(default_factory=_numbers)
    thread: tuple[str, str] = ("", "")
    stack: list[tuple[int, int, int]] = field(default_factory=list)
    """End, event and top op of each op that is open, innermost last."""

    def add(self, spans: Iterable[Span]) -> None:
        """Go on with the next spans, which are in order."""
        stack = self.stack
        for pid, tid, event_id, is_op, is_annotation, start, end in spans:
            if (pid, tid) != self.thread:
                self.thread = (pid, tid)
                stack.clear()
            until = start if is_op else start - 1
            while stack and stack[-1][0] <= until:
                stack.pop()
            top = _NONE
            if stack:
                _, parent, top = stack[-1]
                self.event_ids.append(event_id)
                self.parents.append(parent)
                self.outermost.append(stack[0][1])
                self.tops.append(top)
            if is_op:
                is_top = top == _NONE and not is_annotation
                stack.append((end, event_id, event_id if is_top else top))

    def table(self) -> pa.Table:
        """The rows of `raw.nesting` but for the trace."""
        columns = {
            "event_id": self.event_ids,
            "parent_event_id": self.parents,
            "outermost_event_id": self.outermost,
            "top_event_id": self.tops,
        }
        return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: array[int]) -> pa.Array:
    """Numbers as Arrow sees them, where they lie."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
