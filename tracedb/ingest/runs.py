"""Decide which run a file belongs to: all ranks that were recorded together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.duck import scalar
from tracedb.errors import IngestError
from tracedb.ingest import files
from tracedb.ingest.foreign import flight_recorder

if TYPE_CHECKING:
    import duckdb

# Ranks of one job: same world size, other ranks, recorded at one time by one tool.
# Flight recorders may lack the world size.
_SIBLING = """
WITH described AS (
    SELECT
        trace_id,
        raw.trace.run_id,
        header ->> '$.distributedInfo.world_size' AS world_size,
        header ->> '$.distributedInfo.backend' AS backend,
        header ->> '$.distributedInfo.rank' AS rank,
        header ->> '$.source.tool' AS tool,
        staging.trace.base_ns
    FROM raw.trace
    INNER JOIN staging.trace USING (trace_id)
    WHERE
        staging.trace.world_size > 1
        OR (header ->> '$.source.tool' = $recorder AND staging.trace.rank IS NOT NULL)
),

extent AS (
    SELECT trace_id, min(ts_ns) AS first_ns,
        max(ts_ns + coalesce(dur_ns, 0)) AS last_ns
    FROM raw.event
    WHERE
        (ph IN ('X', 'B', 'E') OR cat = $category)
        AND trace_id IN (SELECT trace_id FROM described)
    GROUP BY trace_id
),

span AS (
    SELECT *, first_ns + base_ns AS start_ns, last_ns + base_ns AS end_ns
    FROM described
    INNER JOIN extent USING (trace_id)
)

SELECT DISTINCT other.run_id
FROM span
INNER JOIN span AS other
    ON
        span.backend = other.backend
        AND coalesce(span.world_size = other.world_size, span.tool = $recorder)
        AND span.tool IS NOT DISTINCT FROM other.tool
WHERE
    span.trace_id = $trace_id
    AND other.trace_id <> $trace_id
    AND other.start_ns < span.end_ns
    AND span.start_ns < other.end_ns
ORDER BY ALL
"""
# A cheap check on headers: most traces have no siblings.
_MAY_HAVE_SIBLINGS = """
SELECT count(*) > 1 AND bool_or(trace_id = $trace_id)
FROM raw.trace
WHERE
    header ->> '$.distributedInfo.world_size' IS NOT NULL
    OR header ->> '$.source.tool' = $recorder
"""
_RANKS_IN_BOTH = """
SELECT count(*)
FROM raw.trace AS one
INNER JOIN raw.trace AS other
    ON
        one.format = other.format
        AND one.header ->> '$.distributedInfo.rank'
        = other.header ->> '$.distributedInfo.rank'
WHERE one.run_id = $one AND other.run_id = $other
"""


def run_name(name: str | None) -> str | None:
    """The stored form of a run's name; raises `IngestError` if it is empty."""
    if name is not None and not name.strip():
        raise IngestError("the name of the run is empty")
    return None if name is None else files.decoded_name(name)


def kept_from(
    connection: duckdb.DuckDBPyConnection, trace_id: int, name: str | None
) -> str:
    """A remark for a known trace that is in another run than the requested one."""
    query = "SELECT run_id FROM raw.trace WHERE trace_id = ?"
    query = f"SELECT name FROM raw.run WHERE run_id = ({query})"
    own = scalar(connection, query, [trace_id])
    return "" if name in (None, own) else f"stays in the run '{own}': "


def named(connection: duckdb.DuckDBPyConnection, name: str, first: int) -> int:
    """The run with that name, created if missing."""
    query = "SELECT run_id FROM raw.run WHERE name = ? LIMIT 1"
    known = scalar(connection, query, [name])
    return create(connection, name, first) if known is None else int(known)


def create(connection: duckdb.DuckDBPyConnection, name: str, first: int) -> int:
    """Create a run; the first in a database has the number `first`."""
    query = "SELECT coalesce(max(run_id) + 1, ?) FROM raw.run"
    run_id = scalar(connection, query, [first])
    connection.execute("INSERT INTO raw.run VALUES (?, ?)", [run_id, name])
    return int(run_id)


def move(connection: duckdb.DuckDBPyConnection, trace_id: int, run_id: int) -> None:
    """Move a trace to a run, and drop empty runs."""
    connection.execute(
        "UPDATE raw.trace SET run_id = ? WHERE trace_id = ?", [run_id, trace_id]
    )
    connection.execute(
        "DELETE FROM raw.run WHERE run_id NOT IN (SELECT run_id FROM raw.trace)"
    )


def join_siblings(connection: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Merge the runs of a rank's trace and of the job's other ranks.

    Ranks that do not overlap in time may be several runs until one is ingested that
    overlaps them all. A run has each rank once.
    """
    query = "SELECT run_id FROM raw.trace WHERE trace_id = ?"
    values: dict[str, object]
    values = {"trace_id": trace_id, "recorder": flight_recorder.TOOL}
    if not scalar(connection, _MAY_HAVE_SIBLINGS, values):
        return
    values["category"] = flight_recorder.CATEGORY
    for (other,) in connection.execute(_SIBLING, values).fetchall():
        own = scalar(connection, query, [trace_id])
        if not scalar(connection, _RANKS_IN_BOTH, {"one": own, "other": other}):
            _merge(connection, max(own, other), min(own, other))


def _merge(connection: duckdb.DuckDBPyConnection, run_id: int, into: int) -> None:
    query = "SELECT trace_id FROM raw.trace WHERE run_id = ?"
    for (trace_id,) in connection.execute(query, [run_id]).fetchall():
        move(connection, trace_id, into)
