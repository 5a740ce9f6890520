"""Between which times four of five kernels lie: quantiles of held-out errors.

Errors are logarithms of measured / predicted, of rows that the model had not seen, by
predicted size: small kernels scatter otherwise than large ones.

What other campaigns or other hardware were off by is told by one log error, within
which four of five rows lie (`held_by`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .families import Floats

LOW, HIGH = 0.1, 0.9
_ROWS_PER_BIN = 150
_MOST_BINS = 8


@dataclass(frozen=True)
class Band:
    """Offsets of the log time, at some predicted log times, linear between them."""

    at: Floats
    low: Floats
    high: Floats

    def around(self, predicted_ns: Floats) -> tuple[Floats, Floats]:
        """[ns] The lower and the upper end for each prediction."""
        logs = np.log(predicted_ns)
        low = predicted_ns * np.exp(np.interp(logs, self.at, self.low))
        high = predicted_ns * np.exp(np.interp(logs, self.at, self.high))
        return np.minimum(low, predicted_ns), np.maximum(high, predicted_ns)

    def widened(self, factor: float, least: float) -> Band:
        """The band with offsets this many times as large, and at least so large."""
        low = np.minimum(self.low * factor, -least)
        return Band(self.at, low, np.maximum(self.high * factor, least))

    def narrowed(self, factor: float) -> Band:
        """The band with both offsets so much smaller."""
        return Band(self.at, self.low * factor, self.high * factor)


def band_of(predicted_ns: Floats, measured_ns: Floats) -> Band:
    """The band that held so far, with the margin that few rows ask for."""
    errors = np.log(measured_ns / predicted_ns)
    order = np.argsort(predicted_ns, kind="stable")
    count = int(np.clip(len(order) // _ROWS_PER_BIN, 1, _MOST_BINS))
    parts = np.array_split(order, count)
    return Band(
        np.array([np.mean(np.log(predicted_ns[part])) for part in parts]),
        np.array([-_upper(-errors[part]) for part in parts]),
        np.array([_upper(errors[part]) for part in parts]),
    )


def _upper(errors: Floats) -> float:
    """The quantile that a new row exceeds once in ten times (split conformal)."""
    level = min(1.0, HIGH * (1 + 1 / len(errors)))
    return float(np.quantile(errors, level))


def held_by(errors: Sequence[Floats], votes: Sequence[float]) -> float:
    """[1] The log error within which four of five rows lie.

    Each part of the rows has as many votes as it is given, however many rows it has.
    """
    sizes = np.abs(np.concatenate(errors))
    parts = zip(errors, votes, strict=True)
    weights = np.concatenate([np.full(len(e), vote / len(e)) for e, vote in parts])
    order = np.argsort(sizes, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    place = int(np.searchsorted(share, HIGH - LOW - 1e-9))
    return float(sizes[order][min(place, len(sizes) - 1)])
