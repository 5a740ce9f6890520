"""Find the innermost and the outermost op that is open when an op or a call begins.

Ops of a thread nest except for rounding: a child may end microseconds after its parent.
So the rule uses only begins: an op is inside the latest-begun op that has not ended; a
call also inside one that ends in the nanosecond in which it begins.

DuckDB sorts spans in slices of time, to bound memory for long traces. A single sort
could spill to disk, but DuckDB underestimates uncommitted rows, and would build a hash
table of all of them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from tracedb.duck import frame, memory_limit, registered, scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import polars as pl

# Where ops begin and end together, their External ids tell which one is outside. These
# are read only for such ties: reading arguments takes longer than everything else.
_SPANS = """
WITH
span AS NOT MATERIALIZED (
    SELECT
        lane, event_id, trace_id, kind = 'op' AS is_op, is_annotation, start_ns, end_ns
    FROM staging.host_event
    INNER JOIN lane USING (trace_id, pid, tid)
    WHERE kind IN ('op', 'call') AND start_ns BETWEEN $first_ns AND $last_ns
),

tie AS (
    SELECT hash(lane, start_ns, end_ns) AS place
    FROM span
    WHERE is_op
    GROUP BY place
    HAVING count(*) > 1
),

identified AS (
    SELECT
        event_id,
        coalesce(
            try_cast(args ->> '$."External id"' AS BIGINT),
            try_cast(args ->> '$."external id"' AS BIGINT)
        ) AS external_id
    FROM raw.event
    WHERE event_id IN (
        SELECT event_id
        FROM span
        WHERE is_op AND hash(lane, start_ns, end_ns) IN (FROM tie)
    )
)

SELECT
    lane, event_id, trace_id, is_op, is_annotation, start_ns, end_ns
FROM span
LEFT JOIN identified USING (event_id)
ORDER BY lane, start_ns, NOT is_op, end_ns DESC, coalesce(external_id, 0), event_id
"""

_LANES = """
SELECT trace_id, pid, tid, row_number() OVER () AS lane
FROM (
    SELECT DISTINCT trace_id, pid, tid
    FROM raw.event
    WHERE trace_id IN (SELECT unnest($trace_ids))
)
"""
_COUNT = "SELECT count(*) FROM raw.event WHERE trace_id IN (SELECT unnest($trace_ids))"
# A sample of the events is enough to find quantiles of time.
_PARTS = """
SELECT DISTINCT unnest(quantile_disc(ts_ns, $shares)) AS first_ns
FROM raw.event
WHERE
    trace_id IN (SELECT unnest($trace_ids))
    AND event_id % 64 = 0
    AND ts_ns IS NOT NULL
ORDER BY first_ns
"""

# [B] Upper bound of memory per event for sorting and hash tables.
_BYTES_PER_EVENT = 456
_EARLIEST_NS, _LATEST_NS = -(1 << 63), (1 << 63) - 1
_BATCH = 50_000
_NONE = -1
_NESTED = ("lane", "event_id", "is_op", "is_annotation", "start_ns", "end_ns")
_STORE = """
INSERT INTO raw.nesting BY NAME
SELECT * REPLACE (nullif(top_event_id, ?) AS top_event_id) FROM nesting
"""


def load(connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]) -> None:
    """Fill `raw.nesting` for some traces, where they have no rows yet."""
    nesting = _Nesting()
    for spans in _spans(connection, trace_ids):
        with registered(connection, "nesting", nesting.found_in(spans)):
            connection.execute(_STORE, [_NONE])


def _spans(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]
) -> Iterator[pl.DataFrame]:
    """Ops and calls of the traces, in order of lane and begin."""
    traces = {"trace_ids": list(trace_ids)}
    lanes = frame(connection.sql(_LANES, params=traces))
    firsts = [_EARLIEST_NS, *_parts(connection, traces), _LATEST_NS + 1]
    with registered(connection, "lane", lanes):
        for first, next_first in pairwise(firsts):
            slice_ = {"first_ns": first, "last_ns": next_first - 1}
            spans = frame(connection.sql(_SPANS, params=slice_))
            yield from spans.iter_slices(_BATCH)


def _parts(
    connection: duckdb.DuckDBPyConnection, traces: dict[str, list[int]]
) -> list[int]:
    """[ns] Where to cut the traces, so that each slice fits in memory."""
    count = scalar(connection, _COUNT, traces)
    slices = count * _BYTES_PER_EVENT // memory_limit(connection) + 1
    if slices == 1:
        return []
    shares = [number / slices for number in range(1, slices)]
    found = connection.execute(_PARTS, traces | {"shares": shares}).fetchall()
    return [int(row[0]) for row in found]


class _Nesting:
    """The open ops of each thread."""

    def __init__(self) -> None:
        self._stacks: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        """End, event and top op of each open op, innermost last."""

    def found_in(self, spans: pl.DataFrame) -> pl.DataFrame:
        """The rows of `raw.nesting` for the next spans."""
        import polars as pl

        columns = (spans[name].to_list() for name in _NESTED)
        names = ("parent_event_id", "outermost_event_id", "top_event_id")
        found = zip(names, self._nest(zip(*columns, strict=True)), strict=True)
        return (
            spans.select("event_id", "trace_id")
            .with_columns(pl.Series(name, ids, pl.Int64) for name, ids in found)
            .filter(pl.col("parent_event_id") != _NONE)
        )

    def _nest(
        self, spans: Iterator[tuple[int, ...]]
    ) -> tuple[list[int], list[int], list[int]]:
        """The parent, the outermost op and the top op of each span, or `_NONE`."""
        parents: list[int] = []
        outermost: list[int] = []
        tops: list[int] = []
        at_hand, stack = _NONE, self._stacks[_NONE]
        for lane, event_id, is_op, is_annotation, start, end in spans:
            if lane != at_hand:
                at_hand, stack = lane, self._stacks[lane]
            until = start if is_op else start - 1
            while stack and stack[-1][0] <= until:
                stack.pop()
            if stack:
                _, parent, top = stack[-1]
                parents.append(parent)
                outermost.append(stack[0][1])
                tops.append(top)
            else:
                top = _NONE
                parents.append(_NONE)
                outermost.append(_NONE)
                tops.append(_NONE)
            if is_op:
                is_top = top == _NONE and not is_annotation
                stack.append((end, event_id, event_id if is_top else top))
        return parents, outermost, tops
