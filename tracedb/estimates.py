"""Predict the GPU work of a database with trained models, and keep what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tracedb import catalog
from tracedb.duck import registered, transaction
from tracedb.errors import QueryError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_TABLE = "reference.kernel_estimate"
_TIMES = ("predicted_ns", "low_ns", "high_ns")
_OF_KERNEL = ("gpu_op_id", "trace_id", "problem_share")
"""Columns of `prediction.kernel_problem` that are the kernel's, not the shape's."""

# Each shape once, with its kernels: a million of them have a few thousand shapes.
_SHAPES = f"""
SELECT
    * EXCLUDE (run_id, op_id, {", ".join(_OF_KERNEL)}),
    {", ".join(f"list({name}) AS {name}" for name in _OF_KERNEL)}
FROM prediction.kernel_problem AS shape
GROUP BY ALL
ORDER BY min(shape.gpu_op_id)
"""


class Models(Protocol):
    """What predicts kernel times from shapes."""

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """A row for each shape, in order.

        Columns: predicted_ns, low_ns, high_ns (NULL where there is no model),
        harness_factor, model, likeness, in_range.
        """


def apply(connection: duckdb.DuckDBPyConnection, models: Models) -> None:
    """Store the times that models predict, and compute anew what follows from them.

    What other models predicted before, and the calibration of that, is dropped. All of
    it, or on an error none. Raises `QueryError` where no shape of GPU work is known.
    """
    shapes: pl.DataFrame = connection.sql(_SHAPES).pl()
    if shapes.is_empty():
        raise QueryError("no shapes of GPU work are known: record with record_shapes")
    estimates = _estimates(shapes, models)
    with transaction(connection):
        connection.execute(f"DELETE FROM {_TABLE}")
        connection.execute("DELETE FROM reference.calibration WHERE basis = 'model'")
        with registered(connection, "estimates", estimates.to_arrow()):
            connection.execute(f"INSERT INTO {_TABLE} BY NAME FROM estimates")
        recompute(connection, _TABLE)


def recompute(connection: duckdb.DuckDBPyConnection, changed: str) -> None:
    """Compute the stored relations that read a table of `reference`, for all traces."""
    rows = connection.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
    trace_ids = [int(row[0]) for row in rows]
    for _ in catalog.compute(connection, trace_ids, catalog.readers(changed)):
        pass


def _estimates(shapes: pl.DataFrame, models: Models) -> pl.DataFrame:
    """Rows of `reference.kernel_estimate` for shapes that each list their kernels."""
    import polars as pl

    part = pl.col("problem_share")
    return (
        shapes.select(_OF_KERNEL)
        .hstack(models.predict(shapes.drop(_OF_KERNEL)))
        .filter(pl.col("predicted_ns").is_not_null())
        .explode(_OF_KERNEL)
        .select(
            "gpu_op_id",
            "trace_id",
            *((pl.col(t) * part).round().clip(1).cast(pl.Int64) for t in _TIMES),
            "harness_factor",
            "model",
            "likeness",
            "in_range",
        )
        .sort("gpu_op_id")
    )
