"""All models of a folder, and the shipped ones: one answer for each shape.

Models of what is asked, by several harnesses, answer together: the mean of the logs,
weighted by how near each is to the op and type, and to its own range. Weights change
with sizes as smoothly as predictions do, so no size has a step.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from tracedb.errors import KernelModelError

from .blend import Answer, between, blended
from .collective_table import OTHER_KIND
from .dtypes import ALIKE
from .families import COLUMNS, FAMILIES
from .hardware import HardwareTable, hardware_table
from .model import Key
from .model_file import UNREADABLE
from .pooled import SOURCE
from .predictor import Predicted
from .rows import Question
from .store import SUFFIX, read
from .transfer import apart, are_twins, is_reachable, nearest_names, nearness
from .work import Op, absent_sizes, complete, is_counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import duckdb
    from numpy.typing import NDArray

    from .families import Floats
    from .hardware import HardwareRow
    from .model import Model
    from .transfer import Mix, Verdict

SHIPPED = "shipped"
"""The folder of the models that the wheel carries (`benchmarks/shipped_models.py`)."""
INDEX = "index.json"
"""What it has: of each model its file, its key, its scores."""
_NEEDED = ("hardware", "family", "op", "dtype")
_ASKED = (*_NEEDED, "measured", "implementation")
RESULT = {
    "predicted_ns": pl.Float64,
    "low_ns": pl.Float64,
    "high_ns": pl.Float64,
    "harness_factor": pl.Float64,
    "model": pl.String,
    "likeness": pl.String,
    "in_range": pl.Boolean,
}
_NUMBERS = ("predicted_ns", "low_ns", "high_ns", "harness_factor")
_TOLD = ("model", "likeness")
LIKENESSES = (
    *("alike", "transferred", "other_measure", "other_hardware", "other_op"),
    "other_topology",
)
"""Of what a model is, set beside what is asked: the same or one that has the same
times; the nearest hardware of the vendor that was measured, where held-out hardware
says that it is nearer than the roofline; measured with the launch rather than without;
other hardware, of which nothing says so; another op; collectives within a node rather
than over several, or over the network of another cluster."""
SERVING = ("alike", "transferred")
"""Of these, what serves in the roofline's place."""
_MOST_NAMES = 8
MOST_NS = 3.6e12
"""An hour and more is no time of GPU work."""
_OTHER_HARDWARE = 8.0
_OTHER_OP = 4.0
_OTHER_MEASURED = 2.0
_UNLISTED = 2.0
"""How much wider the band is where not even the data sheet is known."""
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
    implementation: str
    """The library of kernels; empty if that is unknown."""

    @property
    def what(self) -> Op:
        """The op, without where it runs."""
        return Op(self.family, self.op, self.dtype)

    def distance(self, key: Key) -> float | None:
        """How far a model's op and type are from what is asked, and how it is measured.

        None where it says nothing of it.
        """
        parts = (self._op_distance(key), self._dtype_distance(key))
        if None in parts:
            return None
        found = sum(part or 0.0 for part in parts)
        return found + (0.0 if key.measured == self.measured else _OTHER_MEASURED)

    def hardware_distance(self, hardware: HardwareRow) -> float | None:
        """How far hardware is; None where models of it say nothing."""
        if hardware.name == self.hardware.name:
            return 0.0
        family = FAMILIES[self.family]
        away = apart(self.hardware, hardware, family, self.dtype)
        if hardware.is_fallback or not is_reachable(self.hardware, hardware, away):
            return None
        return _OTHER_HARDWARE + nearness(away)

    def likeness(self, hardware: HardwareRow, shelf: Shelf) -> str:
        """One of `LIKENESSES`: the one that makes the time most doubtful.

        `hardware` is the row of today that the model's hardware is.
        """
        key = shelf.key
        if _OTHER_OP in (self._op_distance(key), self._dtype_distance(key)):
            return "other_op"
        is_measure = key.measured == self.measured
        if hardware.name == self.hardware.name:
            return "alike" if is_measure else "other_measure"
        is_related = is_measure and self.hardware.is_related(hardware)
        if is_related and self.verdict(hardware, shelf).is_better:
            return "transferred"
        return "other_hardware"

    def verdict(self, hardware: HardwareRow, shelf: Shelf) -> Verdict:
        """What held-out GPUs show about a model of some hardware, used for this one."""
        family = FAMILIES[self.family]
        is_near = are_twins(self.hardware, hardware, family, self.dtype)
        return shelf.model.transfer.of(is_near=is_near)

    def _op_distance(self, key: Key) -> float | None:
        family = FAMILIES[self.family]
        if key.op == self.op:
            return 0.0
        if family.op_class(key.op) == family.op_class(self.op):
            return 0.25
        return _OTHER_OP if family.ops_alike else None

    def _dtype_distance(self, key: Key) -> float | None:
        family = FAMILIES[self.family]
        if not family.is_typed:
            return 0.0
        # Types of one rate differ by less than campaigns do.
        if ALIKE.get(key.dtype, key.dtype) == ALIKE.get(self.dtype, self.dtype):
            return 0.0
        return _OTHER_OP if family.ops_alike else None


@dataclass(frozen=True)
class Shelf:
    """Where a model is: read, or in a file that is read once it is asked."""

    key: Key
    source: Model | Path
    is_users: bool = True
    """Whether the user trained it; else it is shipped, and users' come first."""

    @cached_property
    def model(self) -> Model:
        """The model itself; raises `KernelModelError` for a broken file."""
        return read(self.source) if isinstance(self.source, Path) else self.source


class _Candidate(NamedTuple):
    """A model that may answer."""

    of_op: float
    """How far its op and type are from what is asked."""
    of_hardware: float
    of_implementation: float
    hardware: HardwareRow
    """Its hardware in the table of today."""
    shelf: Shelf

    @property
    def distance(self) -> float:
        """How far it is in all."""
        return self.of_op + self.of_hardware + self.of_implementation


@dataclass(frozen=True)
class Models:
    """Models to predict with."""

    shelves: tuple[Shelf, ...]
    hardware: HardwareTable
    are_serving_alone: bool = False
    """Whether models are left out whose times serve no better than the roofline's."""

    @classmethod
    def of(cls, models: Iterable[Model], hardware: HardwareTable) -> Models:
        """Models that were trained or read."""
        return cls(tuple(Shelf(model.key, model) for model in models), hardware)

    @property
    def models(self) -> tuple[Model, ...]:
        """All of them, read."""
        return tuple(shelf.model for shelf in self.shelves)

    def serving(self) -> Models:
        """The same, without those that serve no better than the roofline."""
        return replace(self, are_serving_alone=True)

    def over_network(self, hardware: str, bytes_per_second: float) -> Models:
        """The same models, for another network between nodes of that hardware."""
        known = self.hardware.over_network(hardware, bytes_per_second)
        return replace(self, hardware=known)

    def over(self, below: Models) -> Models:
        """These models, and others for what these say nothing of."""
        return Models(self.shelves + below.shelves, self.hardware)

    @cached_property
    def _of_family(self) -> dict[str, list[Shelf]]:
        found: dict[str, list[Shelf]] = {}
        for shelf in self.shelves:
            found.setdefault(shelf.key.family, []).append(shelf)
        return found

    def predict(self, shapes: pl.DataFrame) -> pl.DataFrame:
        """Predict the time of each row, with the band that holds four times of five.

        Columns hardware (a row of `prediction.hardware`, or a device's name), family,
        op, dtype, the sizes of the families, measured (`kernel` where missing), and
        implementation (the library of kernels, as `prediction.kernel_problem` names it;
        models of all libraries answer where it is missing).
        Returns as many rows in the same order: predicted_ns, low_ns, high_ns [ns],
        harness_factor (by which kernels of another harness may be shorter or longer),
        model, likeness (of `LIKENESSES`), in_range (only what is alike can be); NULL
        where there is no model, a size is missing or too small, or FLOPs or bytes are
        no finite number. Raises `KernelModelError` where a column is missing, or a size
        is no whole number.
        """
        missing = [name for name in _NEEDED if name not in shapes.columns]
        if missing:
            raise KernelModelError(f"shapes lack the column {', '.join(missing)}")
        absent = absent_sizes(shapes)
        if absent:
            raise KernelModelError(f"shapes lack the column {absent}")
        _refuse_no_sizes(shapes)
        answers = _Answers(shapes.height)
        for texts, rows in _asked(shapes):
            hardware = self.hardware.find(texts[0])
            self._answer(Asked(hardware, *texts[1:]), rows, answers)
        return answers.frame()

    def _answer(self, asked: Asked, rows: pl.DataFrame, answers: _Answers) -> None:
        """Ask the nearest models, and make one answer of theirs."""
        if asked.family not in FAMILIES:
            return
        rows = complete(FAMILIES[asked.family], rows)
        chosen = [] if rows.is_empty() else self._candidates(asked)
        if not chosen:
            return
        question = Question.of(rows, asked.what)
        counted = is_counted(question.shapes)
        if not counted.any():
            return
        if not counted.all():
            rows = rows.filter(counted)
            question = Question.of(rows, asked.what)
        nearest = chosen[0]
        verdict = asked.verdict(nearest.hardware, nearest.shelf)
        part = verdict.mix.usual_part
        predicted = [_predicted(c.shelf.model, question, asked, part) for c in chosen]
        found = blended(
            [
                Answer(each, c.distance, is_first=c.shelf.is_users)
                for c, each in zip(chosen, predicted, strict=True)
            ]
        )
        models = [c.shelf.model for c in chosen]
        likeness = asked.likeness(nearest.hardware, nearest.shelf)
        if likeness == "transferred":
            found = verdict.banded(self._mixed(asked, question, found, verdict.mix))
        elif nearest.of_hardware:
            doubt = _UNLISTED if asked.hardware.is_fallback else 1.0
            found = found.at_least(float(np.exp(verdict.error))).widened(doubt)
        is_listed = not asked.hardware.is_fallback
        there = question.on(asked.hardware.figures, is_listed=is_listed)
        found = found.bounded(there.least_ns)
        error = np.max([model.harness_error.of(found.ns) for model in models], axis=0)
        error = found.error_elsewhere(error)
        numbers = np.stack([found.ns, found.low_ns, found.high_ns, np.exp(error)])
        others = f", and {len(chosen) - 1} more" if len(chosen) > 1 else ""
        in_range = (nearest.distance <= _SAME) & (found.away == 0)
        is_kind = found.away < OTHER_KIND
        if not nearest.shelf.is_users:
            is_kind &= ~_are_over_nodes(rows)
        for kind, here in ((likeness, is_kind), ("other_topology", ~is_kind)):
            if here.any():
                reported = (models[0].title + others, kind)
                places = rows[_ROW].to_numpy()[here]
                answers.put(places, numbers[:, here], reported, in_range[here])

    def _mixed(
        self, asked: Asked, question: Question, near: Predicted, mix: Mix
    ) -> Predicted:
        """A prediction for an unmeasured GPU, of all that held-out GPUs ask for."""
        rows = question.on(asked.hardware.figures, is_listed=True)
        pooled = None
        if mix.pooled:
            shelf = self._pooled(asked)
            pooled = shelf.model.predictor.predict(rows) if shelf else None
        return mix.of(near, pooled, rows)

    def _pooled(self, asked: Asked) -> Shelf | None:
        """The model of all GPUs of the vendor for what is asked."""
        for shelf in self._of_family.get(asked.family, ()):
            key = shelf.key
            away = asked.distance(key) if key.source == SOURCE else None
            is_vendor = key.hardware == asked.hardware.vendor
            if is_vendor and away is not None and away <= _SAME:
                return shelf
        return None

    def _candidates(self, asked: Asked) -> list[_Candidate]:
        """The models of what is asked, or else the nearest; the nearest first."""
        found = [*self._known(asked)]
        if not found:
            return []
        nearest = min(found, key=lambda each: each.distance)
        farthest = max(_SAME, nearest.of_op)
        found = [each for each in found if each.of_op <= farthest]
        # What was measured is not asked of other hardware.
        names = {nearest.hardware.name}
        if nearest.of_hardware:
            found.sort(key=lambda each: (each.of_hardware, each.shelf.key.name))
            names = {*nearest_names(each.hardware.name for each in found)}
        found = [each for each in found if each.hardware.name in names]
        found.sort(key=lambda e: (not e.shelf.is_users, e.distance, e.shelf.key.name))
        if not self.are_serving_alone:
            return found
        return [e for e in found if asked.likeness(e.hardware, e.shelf) in SERVING]

    def _known(self, asked: Asked) -> Iterator[_Candidate]:
        """All models that say something of what is asked."""
        for shelf in self._of_family.get(asked.family, ()):
            of_op = asked.distance(shelf.key)
            if of_op is None or shelf.key.source == SOURCE:
                continue
            hardware = self.hardware.find(shelf.key.hardware)
            of_hardware = asked.hardware_distance(hardware)
            if of_hardware is not None:
                away = between(asked.implementation, shelf.key.implementation)
                yield _Candidate(of_op, of_hardware, away, hardware, shelf)


class _Answers:
    """The columns of the result, filled part by part."""

    def __init__(self, height: int) -> None:
        self._numbers = np.full((len(_NUMBERS), height), np.nan)
        self._model = np.zeros(height, np.int64)
        self._reported: list[tuple[str | None, str | None]] = [(None, None)]
        self._in_range = np.zeros(height, np.bool_)

    def put(
        self,
        places: NDArray[np.int64],
        numbers: Floats,
        reported: tuple[str, str],
        in_range: NDArray[np.bool_],
    ) -> None:
        """Take `_NUMBERS` of the rows at some places, and what is the same for all."""
        self._numbers[:, places] = numbers
        self._model[places] = len(self._reported)
        self._reported.append(reported)
        self._in_range[places] = in_range

    def frame(self) -> pl.DataFrame:
        """The result, in the order of the question."""
        columns = dict(zip(_NUMBERS, self._numbers, strict=True))
        has_model = pl.Series(self._model > 0)
        numbers = pl.DataFrame(columns, schema_overrides=RESULT).fill_nan(None)
        reported = {
            name: pl.Series(values, dtype=RESULT[name]).gather(self._model)
            for name, values in zip(
                _TOLD, zip(*self._reported, strict=True), strict=True
            )
        }
        return numbers.with_columns(
            **reported,
            in_range=pl.when(has_model).then(pl.Series(self._in_range)),
        )


_ROW = "_row"


def _asked(shapes: pl.DataFrame) -> Iterator[tuple[list[str], pl.DataFrame]]:
    """The rows of each combination of texts, with their numbers."""
    known = (
        pl.col(name).cast(pl.String).fill_null(usual)
        if name in shapes.columns
        else pl.lit(usual).alias(name)
        for name, usual in (("measured", "kernel"), ("implementation", ""))
    )
    numbered = shapes.with_columns(known).with_row_index(_ROW)
    for texts, rows in numbered.group_by(_ASKED, maintain_order=True):
        yield [str(text or "") for text in texts], rows


def _are_over_nodes(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Which collectives go over a network, whose speed is no matter of the GPU's."""
    if not {"ranks", "ranks_per_node"} <= {*rows.columns}:
        return np.zeros(rows.height, np.bool_)
    over = rows.select(pl.col("ranks_per_node") < pl.col("ranks")).to_series()
    return over.fill_null(value=False).to_numpy()


def _refuse_no_sizes(shapes: pl.DataFrame) -> None:
    """Raise `KernelModelError` for a size that is text, infinite or not a number."""
    for name in COLUMNS:
        if name not in shapes.columns:
            continue
        column = shapes[name]
        if column.dtype == pl.Null:
            continue
        if not column.dtype.is_numeric():
            raise KernelModelError(
                f"the size {name} is {column.dtype}; sizes are whole numbers"
            )
        if column.dtype.is_float() and not bool(column.is_finite().all()):
            wrong = shapes.with_row_index(_ROW).filter(~pl.col(name).is_finite())
            row, value = wrong.select(_ROW, name).row(0)
            raise KernelModelError(
                f"the size {name} of row {row + 1} is {value}; sizes are whole numbers"
            )


def _predicted(
    model: Model, question: Question, asked: Asked, usual_part: float
) -> Predicted:
    """What a model says; raises `KernelModelError` where its parts do not fit."""
    try:
        predicted = model.predict(question, asked.hardware, asked.measured, usual_part)
    except UNREADABLE as error:
        raise KernelModelError(
            f"the model {model.title} cannot be used ({error!r}); train it again with "
            "`tracedb kernels train`"
        ) from error
    times = np.stack([predicted.ns, predicted.low_ns, predicted.high_ns])
    if not np.isfinite(times).all():
        raise KernelModelError(
            f"the model {model.title} predicts infinite times; train it again with "
            "`tracedb kernels train`"
        )
    ns, low, high = np.minimum(times, MOST_NS)
    return Predicted(ns, low, high, predicted.away)


def load_models(
    path: str | Path, connection: duckdb.DuckDBPyConnection | None = None
) -> Models:
    """Read a model file, or all of a folder.

    `connection` is that of a database with hardware that its user added. Raises
    `KernelModelError` where there is none, or one is broken.
    """
    return Models.of(map(read, _files(Path(path))), hardware_table(connection))


def shipped_models(connection: duckdb.DuckDBPyConnection | None = None) -> Models:
    """The models that come with tracedb, each read once something asks for it."""
    folder = Path(str(files("tracedb.kernels"))) / SHIPPED
    rows = json.loads((folder / INDEX).read_bytes())
    names = [field.name for field in fields(Key)]
    shelves = (
        Shelf(Key(*(row[n] for n in names)), folder / row["file"], is_users=False)
        for row in rows
    )
    return Models(tuple(shelves), hardware_table(connection))


def load_model(path: str | Path) -> Model:
    """Read one model: a file, or the only one of a folder.

    Raises `KernelModelError` where there is none, it is broken, or there are several.
    """
    files = _files(Path(path))
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:_MOST_NAMES])
        others = f" and {len(files) - _MOST_NAMES} more" if files[_MOST_NAMES:] else ""
        raise KernelModelError(
            f"{path}: a folder of {len(files)} models; choose one: {names}{others}"
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
            f"{path}: no models below; `tracedb kernels train` writes models"
        )
    return files
