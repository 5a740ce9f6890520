"""Decide which run a file belongs to: what was recorded together, all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import scalar

if TYPE_CHECKING:
    import duckdb

# Ranks of one job: same world, another rank, and recorded at the same time.
_SIBLING = """
WITH span AS (
    SELECT
        raw.trace.trace_id,
        any_value(run_id) AS run_id,
        any_value(header -> '$.distributedInfo.world_size') AS world_size,
        any_value(header ->> '$.distributedInfo.backend') AS backend,
        any_value(header -> '$.distributedInfo.rank') AS rank,
        min(ts_ns) + any_value(coalesce((header ->> '$.baseTimeNanoseconds')::BIGINT, 0))
        AS start_ns,
        max(ts_ns + dur_ns)
        + any_value(coalesce((header ->> '$.baseTimeNanoseconds')::BIGINT, 0)) AS end_ns
    FROM raw.trace
    INNER JOIN raw.event ON raw.trace.trace_id = raw.event.trace_id AND ph = 'X'
    WHERE (header ->> '$.distributedInfo.world_size')::BIGINT > 1
    GROUP BY raw.trace.trace_id
)

SELECT other.run_id
FROM span
INNER JOIN span AS other USING (world_size, backend)
WHERE
    span.trace_id = $trace_id
    AND other.trace_id <> $trace_id
    AND other.start_ns < span.end_ns
    AND span.start_ns < other.end_ns
    AND NOT EXISTS (
        FROM span AS taken WHERE taken.run_id = other.run_id AND taken.rank = span.rank
        AND taken.trace_id <> $trace_id
    )
ORDER BY ALL
LIMIT 1
"""


def named(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """The run of that name, made if there is none."""
    query = "SELECT run_id FROM raw.run WHERE name = ? LIMIT 1"
    known = scalar(connection, query, [name])
    return create(connection, name) if known is None else int(known)


def create(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """A new run."""
    run_id = scalar(connection, "SELECT coalesce(max(run_id), 0) + 1 FROM raw.run")
    connection.execute("INSERT INTO raw.run VALUES (?, ?)", [run_id, name])
    return int(run_id)


def move(connection: duckdb.DuckDBPyConnection, trace_id: int, run_id: int) -> None:
    """Put a trace into a run, and drop runs that have none left."""
    connection.execute(
        "UPDATE raw.trace SET run_id = ? WHERE trace_id = ?", [run_id, trace_id]
    )
    connection.execute(
        "DELETE FROM raw.run WHERE run_id NOT IN (SELECT run_id FROM raw.trace)"
    )


def join_siblings(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Put a rank's trace into the run of the other ranks, if they are there."""
    run_id = scalar(connection, _SIBLING, {"trace_id": trace_id})
    if run_id is not None:
        move(connection, trace_id, run_id)
