"""How long shapes of no trace take: by models, where none serves by the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from .models import MOST_NS, SERVING
from .relations import declared
from .rows import Question
from .usual import usual_ns
from .work import Op

if TYPE_CHECKING:
    from .models import Models

_SHAPE = ("hardware", "family", "op", "dtype")


def shape_times(models: Models, shapes: pl.DataFrame) -> pl.DataFrame:
    """Predict the time of each row, as `Models.predict` takes them.

    Returns as many rows: ns, low_ns, high_ns [ns] (whole numbers from 1), and model,
    which is NULL where the roofline of `prediction.kernel_efficiency` serves.
    """
    predicted = models.serving().predict(shapes).with_row_index("row")
    is_served = pl.col("likeness").is_in(SERVING)
    times = {"ns": "predicted_ns", "low_ns": "low_ns", "high_ns": "high_ns"}
    served = predicted.filter(is_served).select(
        "row", "model", **{name: pl.col(of) for name, of in times.items()}
    )
    rest = shapes.with_row_index("row").join(served, on="row", how="anti")
    parts = [served]
    for texts, rows in rest.group_by(_SHAPE, maintain_order=True):
        hardware, family, op, dtype = map(str, texts)
        parts.append(_by_roofline(models, hardware, Op(family, op, dtype), rows))
    whole = [pl.col(name).round().clip(1).cast(pl.Int64) for name in times]
    found = pl.concat([part.select(served.columns) for part in parts])
    return found.sort("row").select(*whole, "model")


def _by_roofline(
    models: Models, hardware: str, op: Op, rows: pl.DataFrame
) -> pl.DataFrame:
    listed = models.hardware.find(hardware)
    question = Question.of(rows, op).on(
        listed.figures, is_listed=not listed.is_fallback
    )
    shares = {row["family"]: row for row in declared("prediction.kernel_efficiency")}
    share = shares.get(op.family, shares["other"])
    ns = np.minimum(usual_ns(question), MOST_NS)
    return rows.select("row").with_columns(
        ns=pl.Series(ns),
        low_ns=pl.Series(ns * share["low_factor"]),
        high_ns=pl.Series(ns * share["high_factor"]),
        model=pl.lit(None, pl.String),
    )
