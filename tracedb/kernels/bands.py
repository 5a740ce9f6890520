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
_ROWS_PER_STEP, _LEAST_STEPS = 50, 2
_GROWN = (1.0, 20.0)
_FARTHEST = 1e2
"""Log distance beyond all shapes."""
_LEAST_END = 1e-4
"""Of a band without width, next to the least error that counts."""


@dataclass(frozen=True)
class Band:
    """Offsets of the log time, at some predicted log times, linear between them."""

    at: Floats
    low: Floats
    high: Floats

    def around(
        self, predicted_ns: Floats, grown: Floats | float = 1.0
    ) -> tuple[Floats, Floats]:
        """[ns] The lower and the upper end for each prediction, with grown offsets."""
        logs = np.log(predicted_ns)
        low = predicted_ns * np.exp(grown * np.interp(logs, self.at, self.low))
        high = predicted_ns * np.exp(grown * np.interp(logs, self.at, self.high))
        return np.minimum(low, predicted_ns), np.maximum(high, predicted_ns)

    def reached(self, predicted_ns: Floats, measured_ns: Floats) -> Floats:
        """How far towards the end of the band each measured time is: 1 at the end."""
        low, high = self.around(predicted_ns)
        error = np.log(measured_ns / predicted_ns)
        ends = np.where(
            error < 0, np.log(low / predicted_ns), np.log(high / predicted_ns)
        )
        found: Floats = np.abs(error) / np.maximum(np.abs(ends), _LEAST_END)
        return found

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


@dataclass(frozen=True)
class Growth:
    """Factors of the offsets of a band, at distances, linear between them."""

    at: Floats
    factor: Floats

    def of(self, distance: Floats) -> Floats:
        """The factor at each distance; beyond the last, in proportion to it."""
        farther = np.maximum(distance / max(self.at[-1], _LEAST_END), 1)
        found: Floats = np.interp(distance, self.at, self.factor) * farther
        return np.minimum(found, _GROWN[1])

    def reach(self, factor: float) -> float:
        """The distance up to which the factor is no larger."""
        last = float(self.at[-1] * max(factor / self.factor[-1], 1))
        over = np.flatnonzero(self.factor > factor)
        if not len(over):
            return last
        place = int(over[0])
        if place == 0:
            return 0.0
        ends = self.factor[place - 1 : place + 1]
        return float(np.interp(factor, ends, self.at[place - 1 : place + 1]))


EVEN = Growth(np.full(1, _FARTHEST), np.ones(1))
"""Bands that are as wide everywhere: nothing is known of distances."""


def growth_of(distances: Sequence[Floats], reaches: Sequence[Floats]) -> Growth:
    """The factors by which bands would have held four of five, by distance.

    Bands get no narrower with distance. Few rows tell nothing of it.
    """
    distance, reached = (
        np.concatenate([np.empty(0), *parts]) for parts in (distances, reaches)
    )
    order = np.argsort(distance, kind="stable")
    count = min(len(order) // _ROWS_PER_STEP, _MOST_BINS)
    if count < _LEAST_STEPS:
        return EVEN
    parts = np.array_split(order, count)
    factors = [np.quantile(reached[part], HIGH - LOW) for part in parts]
    return Growth(
        np.array([np.median(distance[part]) for part in parts]),
        np.maximum.accumulate(np.clip(factors, *_GROWN)),
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
