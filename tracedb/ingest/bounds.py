"""Take the times of events that no sum of times could bear, and count them.

The layers above raw add times up in 64 bits. They need not look out for overflows: in
a trace no time is further than 39 hours from the usual one, and no more than two years
come together when the durations of all of its events are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

    from tracedb.ingest.issues import Issues

_FARTHEST_NS = 1 << 47
_LARGEST_SUM_NS = 1 << 56

# What metadata has for a time says nothing.
_TIMED = "FROM raw.event WHERE trace_id = $trace_id AND ph IS DISTINCT FROM 'M'"
# The second is what the sum below is at most: no begin is farther from its end.
_EXTENT = f"""
SELECT
    greatest(
        coalesce(max(ts_ns) - min(ts_ns), 0), coalesce(max(dur_ns), 0)
    ) AS extent_ns,
    coalesce(sum(dur_ns) FILTER (dur_ns > 0), 0)
    + extent_ns::HUGEINT * count(*) FILTER (ph = 'B')
{_TIMED}
"""
_USUAL = f"SELECT quantile_disc(ts_ns, 0.5) {_TIMED} AND ts_ns IS NOT NULL"
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
    """Leave a trace no time that is beyond the bounds; it stays in `other`."""
    trace = _Trace(connection, trace_id, issues)
    extent_ns, most_ns = trace.numbers(_EXTENT)
    if extent_ns > _FARTHEST_NS:
        trace.take("dur", f"dur_ns > {_FARTHEST_NS}")
        usual = trace.number(_USUAL)
        trace.take("ts", f"abs(ts_ns - {usual}) > {_FARTHEST_NS}")
    # The sum itself takes ten times as long to plan.
    if most_ns > _LARGEST_SUM_NS and trace.number(_SUM) > _LARGEST_SUM_NS:
        most = _LARGEST_SUM_NS // trace.number(_COUNT)
        trace.take("ts", _OUTLASTING.format(most=most))
        trace.take("dur", f"dur_ns > {most}")


class _Trace:
    """A trace whose events are stored, but not yet read by any layer."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, trace_id: int, issues: Issues
    ) -> None:
        self._connection = connection
        self._issues = issues
        self._values = {"trace_id": trace_id}

    def number(self, query: str) -> int:
        """What a query says of the trace."""
        return self.numbers(query)[0]

    def numbers(self, query: str) -> list[int]:
        """All that a query says of the trace, in one row."""
        ((*found,),) = self._connection.execute(query, self._values).fetchall()
        return [int(number or 0) for number in found]

    def take(self, field: str, condition: str) -> None:
        """Take a time of the events for which a condition holds."""
        query = _TAKE.format(field=field, condition=condition)
        found = self._connection.execute(query, self._values).fetchall()
        if found:
            what = (
                "durations of days" if field == "dur" else "times days away from most"
            )
            first = min(event_id for (event_id,) in found)
            self._issues.add_event(f"kept without time: {what}", first, len(found))
