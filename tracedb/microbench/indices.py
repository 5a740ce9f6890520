"""Draw rows to look up in a table, skewed to give a wanted number of distinct rows.

Row r of a table is drawn with probability proportional to 1 / r^s (Zipf's law): s = 0
is uniform, and the larger s, the fewer distinct rows. Ranks are kept in buckets, the
first ones alone and later ones in ever larger groups, so that a table of any length
takes a few thousand numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ALONE = 1024
_GROWTH = 1.01
_STEEPEST = 8.0
# A prime: multiplied by it, ranks are spread over the table.
_SPREAD = 2_654_435_761


@dataclass(frozen=True)
class _Law:
    """Zipf's law over a table, by buckets of ranks."""

    first: NDArray[np.int64]
    """The lowest rank of each bucket, followed by the length of the table."""
    share: NDArray[np.float64]
    """Probability of each bucket."""

    @classmethod
    def of(cls, table_rows: int, exponent: float) -> "_Law":
        """Make the law of a table."""
        first = _buckets(table_rows)
        width = np.diff(first)
        weight = width * (first[:-1] + (width + 1) / 2) ** -exponent
        return cls(first, weight / weight.sum())

    def distinct(self, lookups: int) -> float:
        """The expected number of distinct rows among `lookups`."""
        width = np.diff(self.first)
        # log1p and expm1, because 1 - p may round to 1.
        missed = lookups * np.log1p(-np.minimum(self.share / width, 1 - 1e-15))
        return float(-(width * np.expm1(missed)).sum())

    def draw(self, lookups: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw ranks."""
        bucket = random.choice(len(self.share), size=lookups, p=self.share)
        return random.integers(self.first[bucket], self.first[bucket + 1])


def _buckets(table_rows: int) -> NDArray[np.int64]:
    """The begins of buckets of ranks, followed by the length of the table."""
    alone = np.arange(min(_ALONE, table_rows), dtype=np.int64)
    steps = max(0, int(np.ceil(np.log(max(table_rows / _ALONE, 1)) / np.log(_GROWTH))))
    later = (_ALONE * _GROWTH ** np.arange(steps)).astype(np.int64)
    ends = np.concatenate([alone, later, [table_rows]])
    return np.unique(ends[ends <= table_rows])


def expected_distinct(table_rows: int, lookups: int, exponent: float = 0.0) -> int:
    """The expected number of distinct rows among lookups by Zipf's law.

    >>> expected_distinct(100, 100)
    63
    """
    return max(1, round(_Law.of(table_rows, exponent).distinct(lookups)))


def draw(
    table_rows: int, lookups: int, distinct: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Draw rows of a table, of which about `distinct` are distinct.

    The maximum is the number for uniform lookups.
    """
    ranks = _Law.of(table_rows, _exponent(table_rows, lookups, distinct)).draw(
        lookups, random
    )
    return _spread(ranks, table_rows)


def _exponent(table_rows: int, lookups: int, distinct: int) -> float:
    """Find the exponent by bisection."""
    low, high = 0.0, _STEEPEST
    if _Law.of(table_rows, low).distinct(lookups) <= distinct:
        return low
    for _ in range(30):
        middle = (low + high) / 2
        many = _Law.of(table_rows, middle).distinct(lookups) > distinct
        low, high = (middle, high) if many else (low, middle)
    return high


def _spread(ranks: NDArray[np.int64], table_rows: int) -> NDArray[np.int64]:
    """Permute ranks over the table, so that frequent rows are not adjacent."""
    if table_rows % _SPREAD == 0:
        return ranks
    return ranks * (_SPREAD % table_rows) % table_rows
