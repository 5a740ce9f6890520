"""One answer of several models: those of all harnesses that measured what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .predictor import Predicted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .families import Floats

_FADE = 1.5
"""Log of how far beyond its range a model has lost 63 % of its weight."""
NEARER = 2.0
"""By how much a unit of distance between asked and trained takes from it, as a log."""
_OTHER_IMPLEMENTATION = 3.0
"""The distance of a model of another library: 0.2 % of the weight."""
_FIRST = 3.0
"""How much more weight users' own models have, as a log."""


@dataclass(frozen=True)
class Answer:
    """What one model says, and how near it is to what was asked."""

    predicted: Predicted
    distance: float
    is_first: bool = False

    @property
    def log_weight(self) -> Floats:
        """Of each row."""
        near = _FIRST * self.is_first - NEARER * self.distance
        found: Floats = near - self.predicted.away / _FADE
        return found


def between(one: str, other: str) -> float:
    """The distance of two libraries of kernels; none where one is unknown."""
    is_other = bool(one and other) and one != other
    return _OTHER_IMPLEMENTATION * is_other


def blended(answers: Sequence[Answer]) -> Predicted:
    """The weighted mean of the logarithms; what they differ by widens the band.

    A row is as far beyond the range as it is from the nearest of them.
    """
    if len(answers) == 1:
        return answers[0].predicted
    logs = np.stack([answer.log_weight for answer in answers])
    weights = np.exp(logs - logs.max(axis=0))
    weights /= weights.sum(axis=0)

    def mean(name: str) -> Floats:
        each = np.stack([getattr(answer.predicted, name) for answer in answers])
        found: Floats = (weights * np.log(each)).sum(axis=0)
        return found

    middle = mean("ns")
    each = np.stack([np.log(answer.predicted.ns) for answer in answers])
    spread = np.sqrt((weights * (each - middle) ** 2).sum(axis=0))
    return Predicted(
        np.exp(middle),
        np.exp(mean("low_ns") - spread),
        np.exp(mean("high_ns") + spread),
        np.min([answer.predicted.away for answer in answers], axis=0),
    )
