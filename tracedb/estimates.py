"""Predict the GPU work of a database with trained models, and keep what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tracedb import catalog
from tracedb.duck import registered, transaction
from tracedb.errors import QueryError

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_TABLE = "raw.kernel_estimate"
_OF_KERNEL = ("kernel_id", "run_id", "trace_id", "op_id", "piece_share")
"""Columns of `prediction.kernel_shape` that are the kernel's, not its shape's."""


class Models(Protocol):
    """What predicts kernel times from shapes."""

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """A row for each shape, in order.

        Columns: predicted_ns, low_ns, high_ns (NULL where there is no model), model,
        in_range.
        """


def apply(connection: duckdb.DuckDBPyConnection, models: Models) -> None:
    """Store the times that models predict, and compute anew what follows from them.

    What other models predicted before, and the calibration of that, is dropped. All of
    it, or on an error none. Raises `QueryError` where no shape of GPU work is known.
    """
    shapes: pl.DataFrame = connection.sql("FROM prediction.kernel_shape").pl()
    if shapes.is_empty():
        raise QueryError("no shapes of GPU work are known here; record_shapes=True")
    estimates = _estimates(shapes, models)
    with transaction(connection):
        connection.execute(f"DELETE FROM {_TABLE}")
        connection.execute("DELETE FROM raw.calibration WHERE basis = 'model'")
        with registered(connection, "estimates", estimates.to_arrow()):
            connection.execute(f"INSERT INTO {_TABLE} BY NAME FROM estimates")
        recompute(connection, _TABLE)


def recompute(connection: duckdb.DuckDBPyConnection, changed: str) -> None:
    """Compute the stored relations that read a table of raw, for all traces."""
    rows = connection.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
    trace_ids = [int(row[0]) for row in rows]
    for _ in catalog.compute(connection, trace_ids, catalog.readers(changed)):
        pass


def _estimates(shapes: pl.DataFrame, models: Models) -> pl.DataFrame:
    """Rows of `raw.kernel_estimate`: each shape is predicted once."""
    import polars as pl

    sizes = [name for name in shapes.columns if name not in _OF_KERNEL]
    distinct = shapes.select(sizes).unique(maintain_order=True)
    predicted = distinct.hstack(models.predict(distinct))
    times = ("predicted_ns", "low_ns", "high_ns")
    return (
        shapes.join(predicted, on=sizes, how="inner", nulls_equal=True)
        .filter(pl.col("predicted_ns").is_not_null())
        .select(
            pl.col("kernel_id").alias("event_id"),
            "trace_id",
            *(
                (pl.col(t) * pl.col("piece_share")).round().clip(1).cast(pl.Int64)
                for t in times
            ),
            "model",
            "in_range",
        )
        .sort("event_id")
    )
