"""All models of a folder: for each shape the one that is nearest to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tracedb.errors import KernelModelError

from .dtypes import ALIKE
from .families import FAMILIES
from .hardware import HardwareTable, hardware_table
from .model_file import UNREADABLE
from .roofline import Roofline
from .store import SUFFIX, read
from .work import Op, complete

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    from numpy.typing import NDArray

    from .hardware import HardwareRow
    from .model import Key, Model
    from .predictor import Predicted

_ASKED = ("hardware", "family", "op", "dtype", "measured")
RESULT = {
    "predicted_ns": pl.Float64,
    "low_ns": pl.Float64,
    "high_ns": pl.Float64,
    "harness_factor": pl.Float64,
    "model": pl.String,
    "likeness": pl.String,
    "in_range": pl.Boolean,
}
_TOLD = ("harness_factor", "model", "likeness")
LIKENESSES = ("alike", "other_measure", "other_hardware", "other_op")
"""Of what a model is, set beside what is asked: the same or one that has the same
times; measured with the launch rather than without; other hardware; another op."""
_MOST_NAMES = 8
_MOST_NS = 1e15
_POOLED = 8.0
_OTHER_OP = 4.0
_OTHER_MEASURED = 2.0
_SAME = 1.0
"""Up to this distance between asked and trained, a model is of what was asked."""


@dataclass(frozen=True)
class Asked:
    """What the rows of a question share."""

    hardware: HardwareRow
    family: str
    op: str
    dtype: str
    measured: str

    @property
    def what(self) -> Op:
        """The op, without where it runs."""
        return Op(self.family, self.op, self.dtype)

    def distance(self, key: Key, hardware: str) -> float | None:
        """How far a model is from what is asked; None where it says nothing of it.

        `hardware` is today's name of the hardware of the model.
        """
        if not (key.is_pooled or hardware == self.hardware.name):
            return None
        parts = (self._op_distance(key), self._dtype_distance(key))
        if None in parts:
            return None
        measured = 0.0 if key.measured == self.measured else _OTHER_MEASURED
        pooled = _POOLED if key.is_pooled else 0.0
        return sum(part or 0.0 for part in parts) + measured + pooled

    def likeness(self, key: Key) -> str:
        """One of `LIKENESSES`: the one that makes the time most doubtful."""
        parts = (self._op_distance(key), self._dtype_distance(key))
        if _OTHER_OP in parts:
            return "other_op"
        if key.is_pooled:
            return "other_hardware"
        return "alike" if key.measured == self.measured else "other_measure"

    def _op_distance(self, key: Key) -> float | None:
        family = FAMILIES[self.family]
        if key.op == self.op:
            return 0.0
        if family.op_class(key.op) == family.op_class(self.op):
            return 0.25
        return _OTHER_OP if family.ops_alike else None

    def _dtype_distance(self, key: Key) -> float | None:
        family = FAMILIES[self.family]
        if key.dtype == self.dtype or not family.is_typed:
            return 0.0
        if ALIKE.get(key.dtype, key.dtype) == ALIKE.get(self.dtype, self.dtype):
            return 0.5
        return _OTHER_OP if family.ops_alike else None


@dataclass(frozen=True)
class Models:
    """Models to predict with."""

    models: tuple[Model, ...]
    hardware: HardwareTable

    @cached_property
    def _of_family(self) -> dict[str, list[tuple[str, Model]]]:
        """Models with the names that their hardware has in the table of today."""
        found: dict[str, list[tuple[str, Model]]] = {}
        for model in self.models:
            name = self.hardware.find(model.key.hardware).name
            found.setdefault(model.key.family, []).append((name, model))
        return found

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """Predict the time of each row, with the band that holds four times of five.

        Columns hardware (a row of `prediction.hardware`, or a device's name), family,
        op, dtype, the sizes of the families, and measured (`kernel` where missing).
        Returns as many rows in the same order: predicted_ns, low_ns, high_ns [ns],
        harness_factor (by which kernels of another harness may be shorter or longer),
        model, likeness (of `LIKENESSES`), in_range (only what is alike can be); NULL
        where there is no model, or a size is missing. Raises
        `KernelModelError` where a column is missing.
        """
        missing = [name for name in _ASKED[:4] if name not in shapes.columns]
        if missing:
            raise KernelModelError(f"shapes lack the column {', '.join(missing)}")
        answers = _Answers(shapes.height)
        for texts, rows in _asked(shapes):
            hardware = self.hardware.find(texts[0])
            self._answer(Asked(hardware, *texts[1:]), rows, answers)
        return answers.frame()

    def _answer(self, asked: Asked, rows: pl.DataFrame, answers: _Answers) -> None:
        """Ask the nearest model, then those as near for what lies out of its range."""
        if asked.family not in FAMILIES:
            return
        rows = complete(FAMILIES[asked.family], rows)
        for distance, model in self._candidates(asked):
            if rows.is_empty():
                return
            predicted = _predicted(model, rows, asked)
            is_near = distance <= _SAME
            in_range = is_near & np.isin(predicted.distance, ("known", "new"))
            factor = float(np.exp(model.harness_error))
            reported = (factor, model.title, asked.likeness(model.key))
            answers.put(rows[_ROW].to_numpy(), predicted, reported, in_range)
            rows = rows.filter(pl.Series(~in_range))

    def _candidates(self, asked: Asked) -> list[tuple[float, Model]]:
        """The models of what is asked, or else the nearest; most rows first."""
        found = [
            (distance, model)
            for hardware, model in self._of_family.get(asked.family, ())
            if (distance := asked.distance(model.key, hardware)) is not None
        ]
        farthest = max(_SAME, min((distance for distance, _ in found), default=0.0))
        chosen = [pair for pair in found if pair[0] <= farthest]
        return sorted(chosen, key=lambda pair: (pair[0], -pair[1].rows))


class _Answers:
    """The columns of the result, filled part by part; the first in-range one stays."""

    def __init__(self, height: int) -> None:
        self._times = np.full((3, height), np.nan)
        self._model = np.zeros(height, np.int64)
        self._reported: list[tuple[float | None, str | None, str | None]]
        self._reported = [(None, None, None)]
        self._in_range = np.zeros(height, np.bool_)

    def put(
        self,
        places: NDArray[np.int64],
        predicted: Predicted,
        reported: tuple[float, str, str],
        in_range: NDArray[np.bool_],
    ) -> None:
        """Take predictions that are in range, and those of rows that have none."""
        taken = in_range | (self._model[places] == 0)
        here = places[taken]
        times = (predicted.ns, predicted.low_ns, predicted.high_ns)
        for own, column in zip(self._times, times, strict=True):
            own[here] = column[taken]
        self._model[here] = len(self._reported)
        self._reported.append(reported)
        self._in_range[here] = in_range[taken]

    def frame(self) -> pl.DataFrame:
        """The result, in the order of the question."""
        columns = dict(zip(RESULT, self._times, strict=False))
        has_model = pl.Series(self._model > 0)
        times = pl.DataFrame(columns, schema_overrides=dict(RESULT)).fill_nan(None)
        reported = {
            name: pl.Series(values, dtype=RESULT[name]).gather(self._model)
            for name, values in zip(
                _TOLD, zip(*self._reported, strict=True), strict=True
            )
        }
        return times.with_columns(
            **reported,
            in_range=pl.when(has_model).then(pl.Series(self._in_range)),
        )


_ROW = "_row"


def _asked(shapes: pl.DataFrame) -> Iterator[tuple[list[str], pl.DataFrame]]:
    """The rows of each combination of texts, with their numbers."""
    measured = pl.lit("kernel").alias("measured")
    if "measured" in shapes.columns:
        measured = pl.col("measured").fill_null("kernel")
    numbered = shapes.with_columns(measured).with_row_index(_ROW)
    for texts, rows in numbered.group_by(_ASKED, maintain_order=True):
        yield [str(text or "") for text in texts], rows


def _predicted(model: Model, rows: pl.DataFrame, asked: Asked) -> Predicted:
    """What a model says; raises `KernelModelError` where its parts do not fit."""
    try:
        predicted = model.predict(rows, asked.what, asked.hardware)
    except UNREADABLE as error:
        raise KernelModelError(
            f"the model {model.title} cannot be used ({error!r}); train it again with "
            "`tracedb kernels train`"
        ) from error
    if (
        max(map(np.nanmax, (predicted.ns, predicted.low_ns, predicted.high_ns)))
        > _MOST_NS
    ):
        raise KernelModelError(
            f"the model {model.title} predicts times of days; train it again with "
            "`tracedb kernels train`"
        )
    return _as_asked(asked, model, predicted)


def _as_asked(asked: Asked, model: Model, predicted: Predicted) -> Predicted:
    """Kernels alone, predicted by a model of ops: without the cost of the launch.

    That is what the model's floor has above the hardware's.
    """
    base = model.predictor.core.base
    if not (asked.measured == "kernel" and model.key.measured == "op"):
        return predicted
    if not isinstance(base, Roofline):
        return predicted
    floor = asked.hardware.figures["floor_ns"]
    launch = max(base.floor_ns - floor, 0.0)
    return predicted.shifted(np.maximum(predicted.ns - launch, floor))


def load_models(
    path: str | Path, connection: duckdb.DuckDBPyConnection | None = None
) -> Models:
    """Read a model file, or all of a folder.

    `connection` is that of a database with hardware that its user added. Raises
    `KernelModelError` where there is none, or one is broken.
    """
    return Models(tuple(map(read, _files(Path(path)))), hardware_table(connection))


def load_model(path: str | Path) -> Model:
    """Read one model: a file, or the only one of a folder.

    Raises `KernelModelError` where there is none, it is broken, or there are several.
    """
    files = _files(Path(path))
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:_MOST_NAMES])
        others = f" and {len(files) - _MOST_NAMES} more" if files[_MOST_NAMES:] else ""
        raise KernelModelError(
            f"{path}: a folder of {len(files)} models; name one of them: "
            f"{names}{others}"
        )
    return read(files[0])


def _files(path: Path) -> list[Path]:
    """The model files of a path: itself, or all below a folder."""
    if not path.exists():
        raise KernelModelError(
            f"{path}: no such file or folder; `tracedb kernels train` writes models"
        )
    files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        raise KernelModelError(
            f"{path}: no model below; `tracedb kernels train` writes models"
        )
    return files
