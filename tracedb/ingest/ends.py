"""Find ends that were lost: of the profiler's step marks, and of ops.

What had not ended when a recording stopped ends with it, or takes no time. Step marks
of a thread follow each other, so the next one tells where the one before ended. An op
ends no later than the ops and ranges around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.ingest.issues import Issues

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

# A mark that lasts to the end of the last one, although the mark of the next number is
# in it, or that takes no time, although others do.
_MARKS = """
UPDATE raw.event
SET dur_ns = next_ns - ts_ns
FROM (
    SELECT
        event_id,
        dur_ns,
        try_cast(regexp_extract(name, '#([0-9]+)', 1) AS BIGINT) AS number,
        lead(number) OVER on_thread AS next_number,
        lead(ts_ns) OVER on_thread AS next_ns,
        ts_ns + dur_ns AS end_ns,
        next_ns + lead(dur_ns) OVER on_thread // 2 AS half_ns,
        max(ts_ns + dur_ns) OVER (PARTITION BY pid, tid) AS last_ns,
        median(dur_ns) OVER (PARTITION BY pid, tid) AS median_ns
    FROM raw.event
    WHERE
        trace_id = $trace_id
        AND ph = 'X'
        AND name LIKE 'ProfilerStep#%'
        AND cat IN ('user_annotation', 'Operator', 'cpu_op')
        AND dur_ns >= 0
        AND ts_ns IS NOT NULL
    WINDOW on_thread AS (PARTITION BY pid, tid ORDER BY ts_ns, event_id)
) AS mark
WHERE
    raw.event.event_id = mark.event_id
    AND next_number = number + 1
    AND next_ns > ts_ns
    AND (
        end_ns > half_ns AND end_ns = last_ns
        OR mark.dur_ns = 0 AND 2 * (next_ns - ts_ns) >= median_ns AND median_ns > 0
    )
RETURNING raw.event.event_id
"""
# The events that end last; if they are many, they are no sign of lost ends. Of two that
# begin together, in files with whole microseconds, the longer one is around the other.
_OPS = """
UPDATE raw.event
SET dur_ns = bound_ns - ts_ns
FROM (
    WITH
    event AS (
        SELECT event_id, pid, tid, ts_ns, ts_ns + dur_ns AS end_ns,
            regexp_matches(name, '::|Backward')
            AND NOT staging.is_posted_message(name)
            AND NOT staging.is_process_group_op(name) AS is_op
        FROM raw.event
        WHERE
            trace_id = $trace_id
            AND ph = 'X'
            AND cat IN ('cpu_op', 'Operator', 'user_annotation')
            AND dur_ns >= 0
            AND ts_ns IS NOT NULL
    ),

    last AS (
        SELECT * FROM event
        WHERE end_ns >= (SELECT max(end_ns) FROM event) - 1_000
        QUALIFY is_op AND count(*) OVER () <= 100
    )

    SELECT last.event_id, min(around.end_ns) AS bound_ns
    FROM last
    INNER JOIN event AS around
        ON
            last.pid = around.pid
            AND last.tid = around.tid
            AND last.ts_ns > around.ts_ns
            AND last.ts_ns < around.end_ns
            AND last.end_ns > around.end_ns + 20_000
    GROUP BY last.event_id
) AS bounded
WHERE raw.event.event_id = bounded.event_id
RETURNING raw.event.event_id
"""
_KINDS = {
    "corrected: ends of step marks that were lost": _MARKS,
    "corrected: ends of ops that were lost": _OPS,
}
_MARKS_AMISS = """
SELECT 'added: step marks missing between others' AS kind, count(*), min(step_id)
FROM staging.lost_mark WHERE trace_id = $trace_id
UNION ALL
SELECT 'left out: step marks that another thread has, too', count(*), min(annotation_id)
FROM staging.step_copy WHERE trace_id = $trace_id
ORDER BY kind
"""


def bound(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Shorten or extend step marks and ops whose ends were lost, and count them."""
    issues = Issues()
    for kind, query in _KINDS.items():
        found = connection.execute(query, {"trace_id": trace_id}).fetchall()
        if found:
            issues.add_event(kind, min(found)[0], len(found))
    issues.store(connection, trace_id)


def count_marks(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]
) -> None:
    """Count the step marks that staging adds or leaves out."""
    for trace_id in trace_ids:
        issues, values = Issues(), {"trace_id": trace_id}
        for kind, count, event_id in connection.execute(
            _MARKS_AMISS, values
        ).fetchall():
            if count:
                issues.add_event(kind, event_id, count)
        issues.store(connection, trace_id)
