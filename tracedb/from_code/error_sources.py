"""The error band of an estimate, and which parts contribute to it."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NAMED = 3


@dataclass(frozen=True)
class ErrorSource:
    """A part of a step, and by how much [ns] it is off in four of five cases."""

    name: str
    shorter_ns: float
    longer_ns: float

    @property
    def error_ns(self) -> float:
        """[ns] Half the width of its band."""
        return (self.shorter_ns + self.longer_ns) / 2


def band(expected_ns: float, sources: Sequence[ErrorSource]) -> tuple[int, int]:
    """[ns] The low and high bound of a step whose parts err independently."""
    low = expected_ns - hypot(*(source.shorter_ns for source in sources))
    high = expected_ns + hypot(*(source.longer_ns for source in sources))
    return max(round(low), 0), round(high)


def largest_sources(sources: Iterable[ErrorSource]) -> tuple[ErrorSource, ...]:
    """The three parts that contribute most to the band."""
    ordered = sorted(sources, key=lambda source: -source.error_ns)
    return tuple(source for source in ordered[:_NAMED] if source.error_ns > 0)
