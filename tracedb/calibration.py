"""Two constants that bring predicted kernel times to those of a trace.

A harness that measures kernels in a loop has another floor and other clocks than a
training run: the times that it leads to are off by a factor and by an offset. Both can
be told from about 20 kernels of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracedb.duck import scalar, transaction
from tracedb.errors import QueryError
from tracedb.estimates import recompute

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import polars as pl
    from numpy.typing import NDArray

    Times = NDArray[np.float64]

LEAST_KERNELS = 5
_TABLE = "reference.calibration"
_LEAST_HELD_OUT = 5
_SEED = 0
_ROUNDS, _GRID = 6, 101
_BELIEVED = 4
"""Kernels that count as predicted rightly, besides those that are fitted on."""

# A kernel that ran often is one kernel, as long as the median.
_KERNELS = """
SELECT
    hardware,
    basis,
    uncalibrated_ns::DOUBLE AS predicted_ns,
    median(end_ns - start_ns)::DOUBLE AS measured_ns
FROM prediction.kernel_time AS time
INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
WHERE
    end_ns > start_ns
    AND family NOT IN ('collective', 'memcpy')
    AND time.trace_id = coalesce($trace, time.trace_id)
GROUP BY hardware, basis, family, name, uncalibrated_ns
ORDER BY hardware, basis, predicted_ns, measured_ns, family, name
"""


@dataclass(frozen=True)
class Constants:
    """A time is `scale` times what was predicted, and `offset_ns` [ns] more."""

    scale: float
    offset_ns: float

    def of(self, predicted: Times) -> Times:
        """Times [ns], calibrated; 1 ns at least."""
        return np.maximum(self.scale * predicted + self.offset_ns, 1.0)


def fit(predicted: Times, measured: Times, least: float) -> Constants:
    """The constants of least absolute log error.

    Both arrays have a time [ns] per kernel; `least` is the shortest time that will be
    calibrated, which stays positive. The loss counts as if a few more kernels had been
    predicted rightly, each as long as the median: what 20 kernels say of two constants
    is not much. Given r = offset / scale, log(scale) is a median; so r alone is
    searched, on a grid that becomes finer around the best.
    """
    low, high = -0.5 * least, float(measured.max())
    for _ in range(_ROUNDS):
        grid = np.append(np.linspace(low, high, _GRID), np.clip(0.0, low, high))
        losses = [_loss(predicted, measured, ratio)[0] for ratio in grid]
        best = float(grid[int(np.argmin(losses))])
        step = (high - low) / (_GRID - 1)
        low, high = max(low, best - step), min(high, best + step)
    scale = _loss(predicted, measured, best)[1]
    return Constants(scale, scale * best)


def _loss(predicted: Times, measured: Times, ratio: float) -> tuple[float, float]:
    """The loss with the best scale, given offset / scale; and that scale."""
    logs = np.append(np.log(measured / (predicted + ratio)), np.zeros(_BELIEVED))
    scale = float(np.median(logs))
    usual = float(np.median(predicted))
    drawn = _BELIEVED * abs(np.log1p(ratio / usual))
    return float(np.abs(logs - scale).sum() + drawn), float(np.exp(scale))


def choose(predicted: Times, count: int) -> NDArray[np.intp]:
    """Places of so many kernels, over the range of their predicted times [ns].

    Sorted and cut into as many parts of equal size, of which each gives one.
    """
    chance = np.random.default_rng(_SEED)
    parts = np.array_split(np.argsort(predicted, kind="stable"), count)
    return np.array([chance.choice(part) for part in parts])


def calibrate(
    connection: duckdb.DuckDBPyConnection, count: int, trace: int | None
) -> pl.DataFrame:
    """Fit and store constants for each hardware; what was stored for it is dropped.

    `count` kernels of a trace, or of all, are fitted on; errors are of the others.
    Returns the new rows of `reference.calibration`. Raises `QueryError` where the trace
    does not exist or nowhere are enough kernels.
    """
    _refuse(connection, count, trace)
    kernels = connection.sql(_KERNELS, params={"trace": trace}).pl()
    rows = list(_fitted(kernels, count, trace))
    if not rows:
        raise QueryError(_too_few(kernels, count))
    with transaction(connection):
        connection.execute(
            f"DELETE FROM {_TABLE} WHERE trace_id IS NOT DISTINCT FROM ?", [trace]
        )
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {_TABLE} VALUES ({marks})", rows)
        recompute(connection, _TABLE)
    query = "WHERE trace_id IS NOT DISTINCT FROM $trace ORDER BY hardware, basis"
    stored: pl.DataFrame = connection.sql(
        f"FROM {_TABLE} {query}", params={"trace": trace}
    ).pl()
    return stored


def _refuse(
    connection: duckdb.DuckDBPyConnection, count: int, trace: int | None
) -> None:
    if count < LEAST_KERNELS:
        raise QueryError(f"{count} kernels are too few to fit two constants: use 20")
    query = "SELECT count(*) FROM raw.trace WHERE trace_id = ?"
    if trace is not None and not scalar(connection, query, [trace]):
        raise QueryError(f"no trace {trace}; `tracedb info` lists them")


def _too_few(kernels: pl.DataFrame, count: int) -> str:
    groups = kernels.group_by("hardware", "basis").len()
    most = 0 if groups.is_empty() else int(groups["len"].to_numpy().max())
    return (
        f"{most} different kernels of known shape are too few: {count} to fit on and "
        f"{_LEAST_HELD_OUT} to test with are needed; try --kernels with a lower number"
    )


def _fitted(
    kernels: pl.DataFrame, count: int, trace: int | None
) -> Iterator[tuple[Any, ...]]:
    """A row of `reference.calibration` for each hardware with enough kernels."""
    groups = kernels.partition_by("hardware", "basis", as_dict=True)
    for (hardware, basis), group in groups.items():
        if group.height < count + _LEAST_HELD_OUT:
            continue
        predicted = group["predicted_ns"].to_numpy()
        measured = group["measured_ns"].to_numpy()
        chosen = choose(predicted, count)
        constants = fit(predicted[chosen], measured[chosen], float(predicted.min()))
        rest = np.delete(np.arange(group.height), chosen)
        before = _errors(predicted[rest], measured[rest])
        after = _errors(constants.of(predicted[rest]), measured[rest])
        scores = (before[0], after[0], before[1], after[1])
        offset = round(constants.offset_ns)
        counts = (count, len(rest))
        is_better = after[0] < before[0] and after[1] <= before[1]
        yield (
            *(hardware, trace, basis, constants.scale, offset),
            *counts,
            *scores,
            is_better,
        )


def _errors(predicted: Times, measured: Times) -> tuple[float, float]:
    """The geometric mean of the relative errors, and their mean."""
    from tracedb.kernels.scores import scores_of

    scores = scores_of(predicted, measured)
    return scores.gmae_share, scores.mape_share
