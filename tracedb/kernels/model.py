"""One model: of one op on one piece of hardware, as one harness measured it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .bands import NO_ERROR, TimedError
from .collective_table import CollectiveTable
from .families import FAMILIES
from .transfer import Transfer, moved, without_launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .families import Hardware
    from .hardware import HardwareRow
    from .predictor import Predicted, Predictor
    from .rows import Question


@dataclass(frozen=True)
class Key:
    """What a model is of; no two models of a training have the same key."""

    hardware: str
    family: str
    op: str
    dtype: str
    measured: str
    source: str
    software: str

    @property
    def name(self) -> str:
        """The key in words."""
        what = " ".join(filter(None, (self.family, self.op, self.dtype, self.measured)))
        harness = " ".join(filter(None, (self.source, self.software)))
        return f"{what} on {self.hardware} by {harness}"

    @property
    def implementation(self) -> str:
        """The library of kernels that was measured; empty if that is unknown."""
        return FAMILIES[self.family].implementation(self.software)


@dataclass(frozen=True)
class Model:
    """A predictor with its key, hardware and provenance."""

    key: Key
    hardware: Hardware
    """Figures of the hardware as `prediction.hardware` had them."""
    is_listed: bool
    predictor: Predictor
    harness_error: TimedError = NO_ERROR
    """[1] Log errors within which four of five kernels of another harness lie."""
    transfer: Transfer = field(default_factory=Transfer)
    """What it is worth on hardware that was not measured."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Versions, data files with their SHA-256, rows, devices, noise."""

    @property
    def rows(self) -> int:
        """How many measured shapes it was trained on."""
        return int(self.provenance["shapes"])

    @property
    def title(self) -> str:
        """The key, and what the model was trained on, in words."""
        return f"{self.key.name}, {self.rows:,} shapes"

    def predict(
        self,
        question: Question,
        hardware: HardwareRow,
        measured: str,
        usual_part: float = 0.0,
    ) -> Predicted:
        """Predict shapes of one op, of the model's family, on some hardware.

        `hardware` may be another than the model's, and `measured` another way to
        measure: kernels alone, of a model of ops. `usual_part` is that of `Mix`.
        """
        rows = question.on(self.hardware, is_listed=self.is_listed)
        predicted = self.predictor.predict(rows)
        base = self.predictor.core.base
        if hardware.name != self.key.hardware and hardware.figures != self.hardware:
            is_kernel = self.key.measured == "kernel"
            is_listed = not hardware.is_fallback
            there = question.on(hardware.figures, is_listed=is_listed)
            predicted = moved(
                predicted,
                base,
                (rows, there),
                is_kernel=is_kernel,
                usual_part=usual_part,
            )
            rows = there
        if measured == self.key.measured or measured != "kernel":
            return predicted
        if isinstance(base, CollectiveTable):
            return predicted
        return without_launch(predicted, base, rows, hardware.figures["floor_ns"])
