"""End Python functions whose return was not recorded where their callers end.

PyTorch lets such a function last until the end of the recording, or until the next
return that was recorded. By time, all that the thread does until then is inside it. Its
caller is known by number ("Python parent id"): no function outlasts that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.ingest.issues import Issues

if TYPE_CHECKING:
    import duckdb

# Numbers recur in files of several recordings: a caller is open when the function
# starts. What an overlong function calls may itself be overlong. The limit of depth
# bounds the time for hostile files.
_BOUND = """
UPDATE raw.event
SET dur_ns = longest_ns
FROM (
    WITH RECURSIVE
    call AS MATERIALIZED (
        SELECT
            event_id,
            pid,
            tid,
            ts_ns AS start_ns,
            ts_ns + dur_ns AS end_ns,
            args ->> ['$."Python id"', '$."Python parent id"'] AS numbers,
            numbers[1] AS number,
            numbers[2] AS caller
        FROM raw.event
        WHERE
            trace_id = $trace_id
            AND cat = 'python_function'
            AND ph = 'X'
            AND dur_ns >= 0
            AND ts_ns IS NOT NULL
    ),

    -- From all calls on, those that outlast them.
    overlong AS (
        SELECT * EXCLUDE (end_ns), end_ns, 0 AS depth FROM call
        UNION ALL
        SELECT inside.* EXCLUDE (end_ns), around.end_ns, depth + 1
        FROM overlong AS around
        INNER JOIN call AS inside
            ON
                around.pid = inside.pid
                AND around.tid = inside.tid
                AND around.number = inside.caller
                AND inside.start_ns BETWEEN around.start_ns AND around.end_ns
                AND inside.end_ns > around.end_ns + 1_000
        WHERE depth <= 100
    )

    SELECT event_id, min(end_ns - start_ns) AS longest_ns
    FROM overlong
    WHERE depth > 0
    GROUP BY event_id
) AS bounded
WHERE raw.event.event_id = bounded.event_id
RETURNING raw.event.event_id
"""
_KIND = "corrected: Python functions that last longer than their callers"


def bound(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Shorten functions of a trace that outlast their callers, and count them."""
    found = connection.execute(_BOUND, {"trace_id": trace_id}).fetchall()
    if found:
        first = min(event_id for (event_id,) in found)
        issues = Issues()
        issues.add_event(_KIND, first, len(found))
        issues.store(connection, trace_id)
