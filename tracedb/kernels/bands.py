"""Between which times four of five kernels lie: quantiles of held-out errors.

Errors are logarithms of measured / predicted, of rows that the model had not seen, by
predicted size: small kernels scatter otherwise than large ones.

What other hardware was off by is told by one log error, within which four of five rows
lie (`held_by`); what other campaigns were off by, by one for each predicted time
(`TimedError`).
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
_HELD_IN_HOLES = (HIGH - LOW) * (1 + 1 / 12)
"""Of the rows of some gaps, which are off together: six gaps that were tried tell as
much of the next one as twelve rows do."""
_MOST_ADDED = 3.0
_TRIED = 1.5
"""How much farther than what was tried errors are as stated."""
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
        self, predicted_ns: Floats, added: Floats | float = 0.0
    ) -> tuple[Floats, Floats]:
        """[ns] The lower and the upper end for each prediction, so much wider."""
        logs = np.log(predicted_ns)
        low = predicted_ns * np.exp(np.interp(logs, self.at, self.low) - added)
        high = predicted_ns * np.exp(np.interp(logs, self.at, self.high) + added)
        return np.minimum(low, predicted_ns), np.maximum(high, predicted_ns)

    def missed(self, predicted_ns: Floats, measured_ns: Floats) -> Floats:
        """How far outside the band each measured time is, as a logarithm.

        Negative within.
        """
        low, high = self.around(predicted_ns)
        found: Floats = np.maximum(
            np.log(low / measured_ns), np.log(measured_ns / high)
        )
        return found

    @property
    def typical(self) -> float:
        """[1] Half its width, as a logarithm, in the middle of the times."""
        # The median; `np.median` would import masked arrays.
        return float(np.quantile(self.high - self.low, 0.5)) / 2

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
    """How much wider a band is on either side, at distances, linear between them.

    As a logarithm, which is added: what is not known of a gap is as much where the band
    is narrow as where it is wide.
    """

    at: Floats
    added: Floats

    def of(self, distance: Floats) -> Floats:
        """What is added at each distance; beyond the last, in proportion to it."""
        farther = np.maximum(distance / max(self.at[-1], _LEAST_END), 1)
        found: Floats = np.interp(distance, self.at, self.added) * farther
        return np.minimum(found, _MOST_ADDED)

    def reach(self, added: float) -> float:
        """The distance up to which no more is added."""
        last, most = float(self.at[-1]), float(self.added[-1])
        if most <= added:
            farther = added / most if most else _TRIED
            return last * min(farther, _TRIED)
        place = int(np.argmax(self.added > added))
        if place == 0:
            return 0.0
        ends = self.added[place - 1 : place + 1]
        return float(np.interp(added, ends, self.at[place - 1 : place + 1]))


EVEN = Growth(np.full(1, _FARTHEST), np.zeros(1))
"""Bands that are as wide everywhere: nothing is known of distances."""


def growth_of(near: tuple[float, float], distance: Floats, missed: Floats) -> Growth:
    """How much wider bands would have held rows of gaps and corners, by distance.

    Nothing is added up to the distance of the first end of `near`, the rows' own beyond
    the second, and no less farther on. Few rows tell nothing of it.
    """
    is_far = distance > near[1]
    distance, missed = distance[is_far], missed[is_far]
    order = np.argsort(distance, kind="stable")
    count = min(len(order) // _ROWS_PER_STEP, _MOST_BINS)
    if count < _LEAST_STEPS:
        return EVEN
    parts = np.array_split(order, count)
    added = [np.quantile(missed[part], _HELD_IN_HOLES) for part in parts]
    return Growth(
        np.array([near[0], *(np.median(distance[part]) for part in parts)]),
        np.maximum.accumulate(np.clip([0.0, *added], 0.0, _MOST_ADDED)),
    )


def _upper(errors: Floats) -> float:
    """The quantile that a new row exceeds once in ten times (split conformal)."""
    level = min(1.0, HIGH * (1 + 1 / len(errors)))
    return float(np.quantile(errors, level))


def held_by(errors: Sequence[Floats], votes: Sequence[float]) -> float:
    """[1] The log error within which four of five rows lie.

    Each part of the rows has as many votes as it is given, however many rows it has.
    """
    parts = zip(errors, votes, strict=True)
    weights = [np.full(len(part), vote / len(part)) for part, vote in parts]
    return weighted_error(np.concatenate(errors), np.concatenate(weights))


def weighted_error(errors: Floats, weights: Floats) -> float:
    """[1] The log error within which four fifths of the weight of all rows lie."""
    sizes = np.abs(errors)
    order = np.argsort(sizes, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    place = int(np.searchsorted(share, HIGH - LOW - 1e-9))
    return float(sizes[order][min(place, len(sizes) - 1)])


@dataclass(frozen=True)
class TimedError:
    """Log errors within which four of five rows lie, at some predicted log times.

    Linear between them; constant before the first and after the last.
    """

    at: Floats
    error: Floats

    def of(self, predicted_ns: Floats) -> Floats:
        """[1] The log error at each predicted time."""
        found: Floats = np.interp(np.log(predicted_ns), self.at, self.error)
        return found


NO_ERROR = TimedError(np.zeros(1), np.zeros(1))
"""Nothing is known of others."""


def falling(values: Floats, weights: Floats) -> Floats:
    """The nearest values that do not rise: isotonic regression."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        block = (value, weight, 1)
        while blocks and blocks[-1][0] < block[0]:
            block = _merged(blocks.pop(), block)
        blocks.append(block)
    return np.repeat([block[0] for block in blocks], [block[2] for block in blocks])


def _merged(
    one: tuple[float, float, int], other: tuple[float, float, int]
) -> tuple[float, float, int]:
    weight = one[1] + other[1]
    mean = (one[0] * one[1] + other[0] * other[1]) / weight
    return mean, weight, one[2] + other[2]
