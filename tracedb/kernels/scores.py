"""How far predictions are off, always told together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .families import Floats

_SMALLEST = 1e-4


@dataclass(frozen=True)
class Scores:
    """Errors |predicted / measured - 1| of some rows, as shares."""

    rows: int
    gmae_share: float
    """[1] Geometric mean, each error at least 0.0001: it flatters what is nearly 0."""
    mape_share: float
    """[1] Mean."""
    p90_share: float
    """[1] Nine of ten are smaller."""
    coverage_share: float | None = None
    """[1] Of the rows, those inside their band; None without bands."""


def scores_of(
    predicted: Floats, measured: Floats, band: tuple[Floats, Floats] | None = None
) -> Scores:
    """Score predictions, and the bands (low, high) about them."""
    errors = np.abs(predicted / measured - 1)
    inside = None
    if band is not None:
        inside = float(np.mean((band[0] <= measured) & (measured <= band[1])))
    return Scores(
        len(measured),
        float(np.exp(np.mean(np.log(np.maximum(errors, _SMALLEST))))),
        float(np.mean(errors)),
        float(np.quantile(errors, 0.9)),
        inside,
    )
