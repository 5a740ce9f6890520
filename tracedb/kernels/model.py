"""One model: of one op on one piece of hardware, as one harness measured it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from .families import Hardware
    from .hardware import HardwareRow
    from .predictor import Predicted, Predictor
    from .work import Op

ANY = "any"
"""In the place of a hardware's name: a model for hardware that was not measured."""
_UNLISTED = 2.0
"""How much wider the band is where not even the data sheet is known."""


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
    def is_pooled(self) -> bool:
        """Whether it is for hardware that was not measured."""
        return self.hardware == ANY

    @property
    def name(self) -> str:
        """The key in words."""
        what = " ".join(filter(None, (self.family, self.op, self.dtype, self.measured)))
        harness = " ".join(filter(None, (self.source, self.software)))
        return f"{what} on {self.hardware} by {harness}"


@dataclass(frozen=True)
class Model:
    """A predictor with its key, hardware and provenance."""

    key: Key
    hardware: Hardware
    """Figures of the hardware as `prediction.hardware` had them; none if pooled."""
    is_listed: bool
    predictor: Predictor
    harness_error: float = 0.0
    """[1] Log error within which four of five kernels of another harness lie."""
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

    def predict(self, frame: pl.DataFrame, op: Op, hardware: HardwareRow) -> Predicted:
        """Predict rows of one op, of the model's family, on some hardware."""
        own = hardware.figures if self.key.is_pooled else self.hardware
        rows = rows_of(frame, op, own, is_listed=self.is_listed)
        predicted = self.predictor.predict(rows)
        if self.key.is_pooled and hardware.is_fallback:
            return predicted.widened(_UNLISTED)
        return predicted
