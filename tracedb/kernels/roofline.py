"""The calibrated roofline: a floor, and what share of the peaks is reached.

    time = (floor^q + work^q)^(1/q)
    work = (compute^p + memory^p)^(1/p)
    compute = FLOPs / (compute share x peak)
    memory = bytes x (out of cache / (memory share x bandwidth)
                      + in cache / (cache share x cache bandwidth))

Bytes come out of the level-2 cache up to a footprint of `cache_fit` caches, and from
memory from twice that on. The two powers say how sharply one bound follows another.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .families import Floats
    from .rows import Rows
    from .work import Work

_ROWS = 1500
"""Rows that are enough for four constants."""
_ROWS_FOR_JOINS = 60
_SHARE_LOWEST = 1e-5
_UNLISTED_HIGHEST = 1e3
_NOMINAL_HIGHEST = 30.0
_FITS = (1.0, 0.5, 2.0, 0.25)
_POWERS = (1.0, 2.0, 8.0)
_TOLERANCE = 0.1
"""Log error from which a row counts less and less."""


_PRIOR = 0.003
"""Weight of the usual constants, for those about which the rows say nothing."""


@dataclass(frozen=True)
class Roofline:
    """The constants, fitted or as the data sheet has them."""

    floor_ns: float
    compute_share: float = 1.0
    memory_share: float = 1.0
    cache_share: float = 1.0
    cache_fit: float = 1.0
    join: float = 8.0
    floor_join: float = 8.0

    def cached(self, work: Work) -> Floats:
        """The share of the bytes that come out of the cache."""
        size = work.footprint / (work.l2_bytes * self.cache_fit)
        return np.clip(2 - size, 0, 1)

    def compute_ns(self, work: Work) -> Floats:
        """[ns] The arithmetic alone."""
        return work.compute_ns / self.compute_share

    def memory_ns(self, work: Work) -> Floats:
        """[ns] The bytes alone."""
        cached = self.cached(work)
        missed = work.memory_ns / self.memory_share * (1 - cached)
        return missed + work.cache_ns / self.cache_share * cached

    def predict_ns(self, rows: Rows) -> Floats:
        """[ns] The time of each row."""
        return self.work_ns(rows.work)

    def work_ns(self, work: Work) -> Floats:
        """[ns] The time of some work."""
        both = _joined(self.compute_ns(work), self.memory_ns(work), self.join)
        floor = np.full_like(both, self.floor_ns)
        return _joined(floor, both, self.floor_join)

    def constants(self) -> dict[str, float]:
        """The constants by their names."""
        return asdict(self)


USUAL = Roofline(1.0, 0.7, 0.7, 0.5, 1.0, 2.0, 2.0)
"""About what families reach of the peaks (`prediction.kernel_efficiency`)."""


def _joined(one: Floats, other: Floats, power: float) -> Floats:
    """Between the sum (power 1) and the larger one (power infinite)."""
    larger = np.maximum(np.maximum(one, other), 1e-300)
    smaller = np.minimum(one, other)
    return larger * (1 + (smaller / larger) ** power) ** (1 / power)


def fit_roofline(rows: Rows, like: Roofline | None = None) -> Roofline:
    """Fit the constants to measured times [ns], robustly, on the logarithm.

    How bounds join and what fits the cache is tried out, or as another roofline has it.
    Shares are at most 1 where the hardware is listed; where it is not, its peaks are
    another's, and any share may come out. Few rows do not tell how bounds join.
    """
    chosen = np.random.default_rng(0).permutation(len(rows))[:_ROWS]
    some, times = rows.work.take(chosen), rows.time_ns[chosen]
    highest = _highest_shares(rows)
    start = replace(USUAL, floor_ns=float(np.quantile(times, 0.01)))
    if like is not None:
        joins = {n: getattr(like, n) for n in ("cache_fit", "join", "floor_join")}
        return _fit(replace(start, **joins), some, times, highest)[1]
    if len(chosen) < _ROWS_FOR_JOINS:
        return _fit(start, some, times, highest)[1]
    fits = [_fit(replace(start, cache_fit=fit), some, times, highest) for fit in _FITS]
    best = min(fits, key=_loss)[1]
    fits = [
        _fit(replace(best, join=p, floor_join=q), some, times, highest)
        for p, q in product(_POWERS, _POWERS)
    ]
    return min(fits, key=_loss)[1]


def _highest_shares(rows: Rows) -> tuple[float, float, float]:
    """Of compute, memory and cache.

    Where arithmetic does not use matrix units, its FLOPs are nominal counts of
    instructions: more than the peak can come out.
    """
    if not rows.is_listed:
        return (_UNLISTED_HIGHEST,) * 3
    return (1.0 if rows.family.uses_matrix_units else _NOMINAL_HIGHEST, 1.0, 1.0)


def _loss(fit: tuple[float, Roofline]) -> float:
    return fit[0]


def _fit(
    start: Roofline, work: Work, time_ns: Floats, highest: tuple[float, float, float]
) -> tuple[float, Roofline]:
    """Fit the four continuous constants; the loss comes first."""
    from scipy.optimize import least_squares

    measured = np.log(time_ns)

    def with_constants(logs: Floats) -> Roofline:
        floor, compute, memory, cache = np.exp(logs).tolist()
        return replace(
            start,
            floor_ns=floor,
            compute_share=compute,
            memory_share=memory,
            cache_share=cache,
        )

    usual = np.log([USUAL.compute_share, USUAL.memory_share, USUAL.cache_share])
    weight = _PRIOR * np.sqrt(len(time_ns))

    def errors(logs: Floats) -> Floats:
        off = np.log(with_constants(logs).work_ns(work)) - measured
        return np.append(off, weight * (logs[1:] - usual))

    shares = (start.compute_share, start.memory_share, start.cache_share)
    lower = np.log([1.0, *[_SHARE_LOWEST] * 3])
    upper = np.log([1e9, *highest])
    first = np.clip(np.log([start.floor_ns, *shares]), lower + 1e-6, upper - 1e-6)
    found = least_squares(
        errors,
        first,
        bounds=(lower, upper),
        loss="soft_l1",
        f_scale=_TOLERANCE,
        max_nfev=60,
    )
    return float(found.cost), with_constants(found.x)
