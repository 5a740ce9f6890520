"""Calibrate kernel times with traces of other databases.

At ingest, a trace is calibrated with its own kernels (`prediction.kernel_factor`). The
same samples help other runs on such a GPU: recurring shapes, and ops and families that
a roofline predicts wrongly. They are kept in `reference.kernel_lesson`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tracedb
from tracedb.duck import frame, registered, transaction
from tracedb.errors import QueryError
from tracedb.estimates import recompute

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import polars as pl

_TABLE = "reference.kernel_lesson"

# Lessons of the source are passed on. Unlisted GPUs are left out: they may be any.
LESSONS = f"""
SELECT
    sha256 AS trace_sha256,
    hardware,
    basis,
    family,
    op,
    octave,
    shape_key,
    round(avg(log_ratio), 6) AS log_ratio
FROM prediction.kernel_sample
INNER JOIN staging.trace USING (trace_id)
WHERE hardware NOT IN (SELECT hardware FROM prediction.hardware WHERE is_generic)
GROUP BY ALL
UNION ALL BY NAME
FROM {_TABLE}
ORDER BY ALL
"""
_SUMMARY = f"""
SELECT
    hardware,
    family,
    basis,
    count(DISTINCT trace_sha256) AS trace_count,
    count(*) AS shape_count,
    round(exp(avg(log_ratio)), 3) AS factor
FROM {_TABLE}
GROUP BY hardware, family, basis
ORDER BY hardware, family, basis
"""


def calibrate(
    connection: duckdb.DuckDBPyConnection, source: str | Path
) -> pl.DataFrame:
    """Add the lessons of another database to earlier ones, and recompute predictions.

    Returns all lessons by hardware, family and basis. Raises `DatabaseError` if the
    source cannot be opened, `QueryError` if there is nothing to learn from it.
    """
    with tracedb.open(source, read_only=True) as other:
        lessons = other.sql(LESSONS)
    if lessons.is_empty():
        raise QueryError(
            f"{source}: no GPU work with known shapes on a listed GPU, so there is "
            "nothing to learn"
        )
    with transaction(connection), registered(connection, "lessons", lessons):
        connection.execute(
            f"DELETE FROM {_TABLE} "
            "WHERE trace_sha256 IN (SELECT trace_sha256 FROM lessons)"
        )
        connection.execute(
            f"INSERT INTO {_TABLE} BY NAME SELECT DISTINCT * FROM lessons"
        )
        recompute(connection, _TABLE)
    return frame(connection.sql(_SUMMARY))
