"""Collectives of one cluster: a table over log(size) and log(ranks).

For each number of ranks and each layout over nodes, the curve of the time by size.
Between numbers of ranks, latency and the time per byte on the bus are interpolated, on
logarithms; beyond the largest message, bandwidth stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracedb.errors import KernelModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from .families import Floats
    from .rows import Rows

_KNOTS_PER_DOUBLING = 4
_TAIL = 4.0
"""The bandwidth beyond the table is that from the largest message over this on."""


@dataclass(frozen=True)
class CollectiveTable:
    """Knots of all curves, one after another; `first` has where each begins."""

    ranks: Floats
    per_node: Floats
    first: NDArray[np.int64]
    log_bytes: Floats
    """Of the bus: the message times the bus factor."""
    log_ns: Floats

    def predict_ns(self, rows: Rows) -> Floats:
        """[ns] The time of each row."""
        size = np.log(np.maximum(rows.work.bytes, 1.0))
        ranks = rows.shapes["ranks"]
        per_node = rows.shapes.known("ranks_per_node", ranks)
        found = np.empty(len(size))
        for n, layout in {*zip(ranks.tolist(), per_node.tolist(), strict=True)}:
            here = (ranks == n) & (per_node == layout)
            found[here] = self._log_ns(n, layout, size[here])
        return np.exp(found)

    def _log_ns(self, ranks: float, per_node: float, size: Floats) -> Floats:
        """The logarithm of the time for one number of ranks."""
        exact = np.flatnonzero((self.ranks == ranks) & (self.per_node == per_node))
        if len(exact):
            return self._curve(int(exact[0]), size)
        alike = self._alike(ranks, per_node)
        place = np.log(ranks)
        places = np.log(self.ranks[alike])
        upper = int(np.clip(np.searchsorted(places, place), 1, max(len(alike) - 1, 1)))
        if len(alike) == 1 or places[upper] == places[upper - 1]:
            return self._curve(int(alike[0]), size)
        share = (place - places[upper - 1]) / (places[upper] - places[upper - 1])
        share = float(np.clip(share, -1, 2))
        below = self._curve(int(alike[upper - 1]), size)
        above = self._curve(int(alike[upper]), size)
        return below * (1 - share) + above * share

    def _alike(self, ranks: float, per_node: float) -> NDArray[np.int64]:
        """Curves within one node, or over several, as asked; else all; by ranks."""
        is_one_node = self.per_node >= self.ranks
        alike = np.flatnonzero(is_one_node == (per_node >= ranks))
        if not len(alike):
            alike = np.arange(len(self.ranks))
        return alike[np.argsort(self.ranks[alike], kind="stable")]

    def _curve(self, curve: int, size: Floats) -> Floats:
        ends = np.append(self.first, len(self.log_ns))
        knots = slice(int(ends[curve]), int(ends[curve + 1]))
        x, y = self.log_bytes[knots], self.log_ns[knots]
        inside = _smooth(x, y, np.clip(size, x[0], x[-1]))
        beyond = np.maximum(size - x[-1], 0)
        return np.where(beyond > 0, _tail(x, y, beyond), inside)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by their names."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CollectiveTable:
        """A table from a file, checked."""
        try:
            table = cls(*(arrays[name] for name in _ARRAYS))
        except KeyError as error:
            raise KernelModelError(f"a table lacks the array {error}") from error
        counts = np.diff(np.append(table.first, len(table.log_ns)))
        curves = {len(table.ranks), len(table.per_node), len(table.first)}
        if len(curves) != 1 or len(table.log_bytes) != len(table.log_ns):
            raise KernelModelError("the arrays of a table differ in length")
        if not len(counts) or table.first[0] != 0 or counts.min() < 1:
            raise KernelModelError("a curve of a table has no knots")
        rises = np.diff(table.log_bytes) > 0
        rises[table.first[1:] - 1] = True
        if not rises.all():
            raise KernelModelError("the knots of a curve of a table are in no order")
        return table

    def constants(self) -> dict[str, float]:
        """What there is to say of it in numbers."""
        return {"curves": len(self.ranks), "knots": len(self.log_ns)}


_ARRAYS = ("ranks", "per_node", "first", "log_bytes", "log_ns")


def _smooth(x: Floats, y: Floats, at: Floats) -> Floats:
    """A monotone cubic through the knots; it leaves none of them out, and no bump."""
    from scipy.interpolate import PchipInterpolator

    found: Floats = (
        PchipInterpolator(x, y)(at) if len(x) > 1 else np.full(len(at), y[0])
    )
    return found


def _tail(x: Floats, y: Floats, beyond: Floats) -> Floats:
    """Log time beyond the last knot, at the bandwidth of the last part of the curve."""
    start = int(np.searchsorted(x, x[-1] - np.log(_TAIL)))
    time = np.exp(y[-1])
    moved = np.exp(x[-1]) - np.exp(x[start])
    # Latency is part of the whole time: bandwidth is at least the largest message's.
    added_ns = min(time - np.exp(y[start]), time * moved / np.exp(x[-1]))
    bytes_per_ns = moved / added_ns if added_ns > 0 else np.exp(x[-1]) / time
    added = np.exp(x[-1]) * np.expm1(beyond) / bytes_per_ns
    logs: Floats = np.log(time + added)
    return logs


def fit_table(rows: Rows) -> CollectiveTable:
    """Put the medians of measured times, by size, into curves."""
    size = np.log(np.maximum(rows.work.bytes, 1.0))
    ranks = rows.shapes["ranks"]
    per_node = rows.shapes.known("ranks_per_node", ranks)
    curves = sorted({*zip(ranks.tolist(), per_node.tolist(), strict=True)})
    knots = [
        _knots(size[here], np.log(rows.time_ns[here]))
        for here in ((ranks == n) & (per_node == layout) for n, layout in curves)
    ]
    counts = [len(x) for x, _ in knots]
    return CollectiveTable(
        np.array([n for n, _ in curves]),
        np.array([layout for _, layout in curves]),
        np.cumsum([0, *counts[:-1]]).astype(np.int64),
        np.concatenate([x for x, _ in knots]),
        np.concatenate([y for _, y in knots]),
    )


def _knots(size: Floats, log_ns: Floats) -> tuple[Floats, Floats]:
    """Medians of rows of about one size."""
    cells = np.round(size / np.log(2) * _KNOTS_PER_DOUBLING).astype(np.int64)
    found = [
        (float(np.median(size[cells == cell])), float(np.median(log_ns[cells == cell])))
        for cell in np.unique(cells)
    ]
    return np.array([x for x, _ in found]), np.array([y for _, y in found])
