"""Remove the times of events that could overflow sums, and count them.

The layers above raw add times in 64 bits, and need no checks for overflow: in a trace,
no time is farther than 39 hours from the median one, and the durations of all events
add up to at most two years.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    from tracedb.ingest.issues import Issues

_FARTHEST_NS = 1 << 47
_LARGEST_SUM_NS = 1 << 56

# Times of metadata events mean nothing.
_TIMED = "FROM raw.event WHERE trace_id = $trace_id AND ph IS DISTINCT FROM 'M'"
# The second column is an upper bound of the sum below.
_EXTENT = f"""
SELECT
    greatest(
        coalesce(max(ts_ns) - min(ts_ns), 0), coalesce(max(dur_ns), 0)
    ) AS extent_ns,
    coalesce(sum(dur_ns) FILTER (dur_ns > 0), 0)
    + extent_ns::HUGEINT * count(*) FILTER (ph = 'B')
{_TIMED}
"""
_MEDIAN = f"SELECT quantile_disc(ts_ns, 0.5) {_TIMED} AND ts_ns IS NOT NULL"
_SUM = """
SELECT coalesce(sum(end_ns - start_ns), 0) FROM staging.slice
WHERE trace_id = $trace_id
"""
_COUNT = f"SELECT count(*) {_TIMED}"
_OUTLASTING = """
ph = 'B' AND event_id IN (
    SELECT event_id FROM staging.slice
    WHERE trace_id = $trace_id AND end_ns - start_ns > {most}
)
"""
_TAKE = """
UPDATE raw.event
SET {field}_ns = NULL, other = concat(
    coalesce(left(other, -1) || ',', '{{'),
    '"{field}":', {field}_ns::DECIMAL(22, 0) * 0.001, '}}'
)
WHERE trace_id = $trace_id AND ph IS DISTINCT FROM 'M' AND {condition}
RETURNING event_id
"""


def bound(connection: duckdb.DuckDBPyConnection, trace_id: int, issues: Issues) -> None:
    """Move the times of a trace that are out of bounds to `other`."""
    trace = _Trace(connection, trace_id, issues)
    extent_ns, most_ns = trace.numbers(_EXTENT)
    if extent_ns > _FARTHEST_NS:
        trace.take("dur", f"dur_ns > {_FARTHEST_NS}")
        median = trace.number(_MEDIAN)
        trace.take("ts", f"abs(ts_ns - {median}) > {_FARTHEST_NS}")
    # The exact sum takes ten times as long to plan.
    if most_ns > _LARGEST_SUM_NS and trace.number(_SUM) > _LARGEST_SUM_NS:
        most = _LARGEST_SUM_NS // trace.number(_COUNT)
        trace.take("ts", _OUTLASTING.format(most=most))
        trace.take("dur", f"dur_ns > {most}")


class _Trace:
    """A trace whose events are stored, but which no layer has read yet."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, trace_id: int, issues: Issues
    ) -> None:
        self._connection = connection
        self._issues = issues
        self._values = {"trace_id": trace_id}

    def number(self, query: str) -> int:
        """The first number that a query on the trace returns."""
        return self.numbers(query)[0]

    def numbers(self, query: str) -> list[int]:
        """The numbers of the only row of a query on the trace."""
        ((*found,),) = self._connection.execute(query, self._values).fetchall()
        return [int(number or 0) for number in found]

    def take(self, field: str, condition: str) -> None:
        """Move a time of the events that meet a condition to `other`."""
        query = _TAKE.format(field=field, condition=condition)
        found = self._connection.execute(query, self._values).fetchall()
        if found:
            what = (
                "durations of days" if field == "dur" else "times days away from most"
            )
            first = min(event_id for (event_id,) in found)
            self._issues.add_event(f"kept without time: {what}", first, len(found))
