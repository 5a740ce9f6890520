"""Drop events that a file has twice, such as one that an export was appended to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import scalar

if TYPE_CHECKING:
    import duckdb

    from tracedb.ingest.issues import Issues

# Slices without numbers of their own may be equal, such as short ranges of a loop: they
# are dropped only if others show that the file repeats itself. Few are equal but for
# their arguments, so these are compared last.
_REPEATED = """
WITH
slice AS (
    SELECT hash(ts_ns, dur_ns, pid, tid, name) AS place, cat, id, args, other
    FROM raw.event
    WHERE trace_id = $trace_id AND ph = 'X' AND dur_ns > 0
)

SELECT slice.*
FROM slice
WHERE
    place IN (SELECT place FROM slice GROUP BY place HAVING count(*) > 1)
    AND regexp_matches(args::VARCHAR, '"(correlation|[Ee]xternal id)"')
GROUP BY ALL
HAVING count(*) > 1
LIMIT 1
"""
_DROP = """
DELETE FROM raw.event
WHERE event_id IN (
    SELECT event_id
    FROM raw.event
    WHERE trace_id = $trace_id AND ph IS DISTINCT FROM 'M'
    QUALIFY row_number() OVER (
        PARTITION BY ts_ns, dur_ns, hash(ph, cat, name, pid, tid, id, args, other)
        ORDER BY event_id
    ) > 1
)
"""
_KIND = "left out: events that the file has twice"


def drop(connection: duckdb.DuckDBPyConnection, trace_id: int, issues: Issues) -> int:
    """Drop all but the first of equal events of a trace; count and return how many."""
    values = {"trace_id": trace_id}
    if scalar(connection, _REPEATED, values) is None:
        return 0
    ((count,),) = connection.execute(_DROP, values).fetchall()
    issues.add(_KIND, None, count)
    return int(count)
