"""How far a shape is from the nearest measured one, within their range as well.

A range says of each size alone what was measured: of all sizes together, some were not,
and the time of a shape in such a gap or corner is less certain than that of its
neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .families import Floats
    from .rows import Rows

_MOST = 500
"""Measured shapes that are kept, at random: as dense everywhere as all of them."""
_PRODUCT = 200_000
"""Multiplications at a time: larger products are shared among threads, which costs more
than it saves."""


@dataclass(frozen=True)
class Support:
    """Some measured shapes."""

    places: NDArray[np.float32]
    """The logarithms of their sizes, a row for each."""

    def nearest(self, rows: Rows) -> Floats:
        """How far the nearest of them is from each row, as a logarithm."""
        if not len(self.places):
            return np.zeros(len(rows))
        return _nearest(_places(rows), self.places)


NOWHERE = Support(np.empty((0, 0), np.float32))
"""Of models that do not say where shapes were measured: those of earlier versions."""


def support_of(rows: Rows) -> Support:
    """Choose some shapes at random."""
    chosen = np.random.default_rng(0).permutation(len(rows))[:_MOST]
    places = _places(rows.take(np.sort(chosen)))
    return Support(places.astype(np.float16).astype(np.float32))


def holes(rows: Rows, count: int) -> Iterator[NDArray[np.bool_]]:
    """Rows in the middle of one size, and in the corners of two, by turns."""
    places = _places(rows)
    varied = [n for n in range(places.shape[1]) if np.ptp(places[:, n]) > 0]
    random = np.random.default_rng(0)
    for number in range(count if varied else 0):
        if number % 2 == 0 or len(varied) == 1:
            values = places[:, varied[number // 2 % len(varied)]]
            start = random.uniform(0.15, 0.55)
            low, high = np.quantile(values, (start, start + 0.3))
            yield (values >= low) & (values <= high)
        else:
            one, other = random.choice(varied, 2, replace=False)
            sides = random.integers(2, size=2) > 0
            is_in = np.ones(len(rows), bool)
            for place, side in ((one, sides[0]), (other, sides[1])):
                values = places[:, place]
                is_in &= (values >= np.median(values)) == side
            yield is_in


def _places(rows: Rows) -> NDArray[np.float32]:
    columns = [rows.logs[f"log_{name}"] for name in rows.family.columns]
    return np.stack(columns, axis=1).astype(np.float32)


def _nearest(places: NDArray[np.float32], others: NDArray[np.float32]) -> Floats:
    """The distance of each place to the nearest other one.

    All squares of distances come from one product, with places around a middle, because
    differences of large numbers are inexact.
    """
    middle = others.mean(axis=0)
    one, other = places - middle, others - middle
    squares = (other**2).sum(axis=1, keepdims=True)
    factor = np.hstack([-2 * other, squares]).T
    rows = np.hstack([one, np.ones((len(one), 1), np.float32)])
    found = np.empty(len(places), np.float32)
    size = max(_PRODUCT // factor.size, 1)
    for start in range(0, len(places), size):
        part = slice(start, start + size)
        found[part] = (rows[part] @ factor).min(axis=1)
    found += (one**2).sum(axis=1)
    return np.sqrt(np.maximum(found, 0)).astype(float)
