"""Predict the GPU work of a database with trained models, and store the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tracedb import catalog
from tracedb.duck import frame, registered, transaction
from tracedb.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import polars as pl

_TABLE = "reference.kernel_estimate"
_TIMES = ("predicted_ns", "low_ns", "high_ns")
_OF_KERNEL = ("gpu_op_id", "trace_id", "problem_share")
"""Columns of `prediction.kernel_problem` that vary among kernels of one shape."""

# Each shape of some traces once, with its kernels: a million kernels have a few
# thousand shapes.
_SHAPES = f"""
SELECT
    * EXCLUDE (run_id, op_id, {", ".join(_OF_KERNEL)}),
    {", ".join(f"list({name}) AS {name}" for name in _OF_KERNEL)}
FROM prediction.kernel_problem AS shape
WHERE list_contains($traces, trace_id)
GROUP BY ALL
ORDER BY min(shape.gpu_op_id)
"""


class Models(Protocol):
    """Models that predict kernel times from shapes."""

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """A row for each shape, in order.

        Columns: predicted_ns, low_ns, high_ns (NULL where there is no model),
        harness_factor, model, likeness, in_range.
        """


def apply(connection: duckdb.DuckDBPyConnection, models: Models) -> None:
    """Store the models' predictions in place of earlier ones, and recompute readers.

    An error leaves the database unchanged. Raises `QueryError` if no shapes of GPU work
    are known.
    """
    trace_ids = _traces(connection)
    shapes = _shapes(connection, trace_ids)
    if shapes.is_empty():
        raise QueryError(
            "no shapes of GPU work are known; record with record_shapes=True"
        )
    estimates = _estimates(shapes, models)
    with transaction(connection):
        connection.execute(f"DELETE FROM {_TABLE}")
        _store(connection, estimates)
        recompute(connection, _TABLE)


def apply_shipped(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]
) -> None:
    """Store the shipped models' predictions for traces that have none yet.

    It returns quickly if no GPU is listed or no shapes are known. Readers of the
    predictions are not recomputed.
    """
    names = connection.execute(_UNPREDICTED, {"traces": [*trace_ids]}).fetchall()
    if not names:
        return
    from tracedb import kernels

    models = kernels.shipped(connection).serving()
    rows = {int(trace_id): models.hardware.find(name) for trace_id, name in names}
    known = [n for n, row in rows.items() if row.kind == "gpu" and not row.is_generic]
    shapes = _shapes(connection, known) if known else None
    if shapes is not None and not shapes.is_empty():
        _store(connection, _estimates(shapes, models))


# Traces with shapes and without predictions, with the name of a GPU.
_UNPREDICTED = f"""
SELECT trace_id, max(coalesce(device.name, trace.device_name))
FROM staging.trace AS trace
INNER JOIN staging.device AS device USING (trace_id)
WHERE
    list_contains($traces, trace_id)
    AND trace_id NOT IN (SELECT trace_id FROM {_TABLE})
    AND trace_id IN (SELECT trace_id FROM prediction.op_shape)
GROUP BY trace_id
HAVING max(coalesce(device.name, trace.device_name)) IS NOT NULL
"""


def model_estimates(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int], models: Models
) -> pl.DataFrame:
    """The models' estimates for GPU work: rows as in `reference.kernel_estimate`."""
    return _estimates(_shapes(connection, trace_ids), models)


def recompute(connection: duckdb.DuckDBPyConnection, changed: str) -> None:
    """Recompute the stored relations that read a table of `reference`."""
    trace_ids = _traces(connection)
    for _ in catalog.compute(connection, trace_ids, catalog.readers(changed)):
        pass


def _traces(connection: duckdb.DuckDBPyConnection) -> list[int]:
    rows = connection.execute("SELECT trace_id FROM raw.trace ORDER BY ALL").fetchall()
    return [int(row[0]) for row in rows]


def _shapes(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]
) -> pl.DataFrame:
    """The shapes of some traces, each with its kernels."""
    return frame(connection.sql(_SHAPES, params={"traces": [*trace_ids]}))


def _store(connection: duckdb.DuckDBPyConnection, estimates: pl.DataFrame) -> None:
    with registered(connection, "estimates", estimates):
        connection.execute(f"INSERT INTO {_TABLE} BY NAME FROM estimates")


def _estimates(shapes: pl.DataFrame, models: Models) -> pl.DataFrame:
    """Rows of `reference.kernel_estimate` for shapes with lists of their kernels."""
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
