"""Collectives of one cluster: a table over log(size) and log(ranks).

For each number of ranks and each layout over nodes, the curve of the time by size.
Between and beyond numbers of ranks, the logarithm of the time is interpolated over
log(ranks): over several nodes at the same bytes on the bus, within a node halfway
between these and the same message, for a part of the time is that of the links, over
which (n - 1) / n of the message goes, and another is each rank's own. Between numbers
of ranks of a node, each rank is another step of a ring, so the time is interpolated
over the ranks where that is less: what grows faster than the ranks shares a link.
Curves rise with the size there, for the scatter of one number of ranks says nothing
about another. Of several curves of one number of ranks, that of the nearest layout
counts.
Beyond its largest message a curve takes as much longer as the nearest longer one does,
and beyond that one bandwidth stays as it was.

Curves within a node say nothing of several nodes, nor the other way round, and those of
cards that a bridge joins nothing of more cards, whose messages go over PCIe: what is
asked of another kind has the nearest there is, and is not in range (`away`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracedb.errors import KernelModelError

from .families.collective import COLLECTIVE
from .work import Op, shapes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from .families import Floats, Shapes
    from .rows import Rows

_KNOTS_PER_DOUBLING = 4
_CELL = float(np.log(2)) / _KNOTS_PER_DOUBLING
_FARTHEST = 2.0
"""How far beyond two numbers of ranks their line is believed, in their distances: from
4 and 8 as far as to 2."""
_OWN_PART = 0.5
"""Of a node's ranks, how far from the bytes on the bus to the same message a curve is
read: held-out ranks of an A100 (2.0 % at 0.5) are too long at 0, too short at 1."""
_STEEPEST = 2.0
"""The power of the ranks with which times grow at most beyond those measured: as many
more steps, each over a link that as many more share. With the most ranks of a node held
out (38 curves), 13.5 % instead of 15.2, at worst 24 instead of 42."""
_MOST_LOG = 100.0
OTHER_KIND = 10.0
"""How far curves within a node are from those over several."""
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
    linked: Floats = field(default_factory=lambda: np.full(1, np.inf))
    """How many devices the link joins, in an array of one."""

    def predict_ns(self, rows: Rows) -> Floats:
        """[ns] The time of each row."""
        ranks, per_node = rows.shapes["ranks"], rows.shapes["ranks_per_node"]
        found = np.empty(len(rows))
        for n, layout in {*zip(ranks.tolist(), per_node.tolist(), strict=True)}:
            here = (ranks == n) & (per_node == layout)
            found[here] = self._log_ns(n, layout, rows.shapes.take(here))
        return np.exp(found)

    def _log_ns(self, ranks: float, per_node: float, shapes: Shapes) -> Floats:
        """The logarithm of the time for one number of ranks."""
        exact = self._exact(ranks, per_node)
        if exact is not None:
            return self._curve(exact, _log_bus_bytes(shapes, ranks))
        alike = self._alike(ranks, per_node)
        places = np.log(self.ranks[alike])
        place = np.searchsorted(places, np.log(ranks))
        upper = int(np.clip(place, 1, max(len(alike) - 1, 1)))
        if len(alike) == 1 or places[upper] == places[upper - 1]:
            size = _log_bus_bytes(shapes, ranks)
            return self._curve(int(alike[0]), size, rises=True)
        return self._between(ranks, per_node, alike[upper - 1 : upper + 1], shapes)

    def _between(
        self, ranks: float, per_node: float, curves: NDArray[np.int64], shapes: Shapes
    ) -> Floats:
        """The line through two curves, at another number of ranks.

        Beyond both, more ranks take no less and at most `_STEEPEST`: two ranks may be
        joined by another link than four, and six are no such step farther.
        """
        lower, upper = map(int, curves)
        numbers = np.array([self.ranks[lower], self.ranks[upper], ranks])
        places = np.log(numbers)
        step = (ranks - numbers[0]) / (numbers[1] - numbers[0])
        share = (places[2] - places[0]) / (places[1] - places[0])
        share = float(np.clip(share, -_FARTHEST, 1 + _FARTHEST))
        is_node = per_node >= ranks
        own_part = _OWN_PART if is_node else 0.0
        op = str(shapes.op[0]) if len(shapes) else ""
        # How much farther along it a curve is read.
        ahead = {
            curve: own_part * _log_sent_ratio(op, float(self.ranks[curve]), ranks)
            for curve in (lower, upper)
        }

        def read(size: Floats) -> Floats:
            one, other = (self._curve(n, size + ahead[n], rises=True) for n in ahead)
            if 0 <= share <= 1:
                power = one * (1 - share) + other * share
                steps = one + np.log1p(step * np.expm1(other - one))
                return np.minimum(power, steps) if is_node else power
            rise = np.clip(other - one, 0, _STEEPEST * (places[1] - places[0]))
            return other + rise * (share - 1) if share > 1 else one + rise * share

        sent = _log_bus_bytes(shapes, ranks)
        found = read(sent)
        if 0 <= share <= 1:
            return found
        # The slope may fall with the size faster than the curve rises.
        knots = np.unique(np.concatenate([self._knots(n)[0] - ahead[n] for n in ahead]))
        there = read(knots)
        return found + np.interp(sent, knots, rising(there) - there)

    def away(self, rows: Rows) -> Floats:
        """How far each row's layout is from those measured, as a log of ranks."""
        ranks, per_node = rows.shapes["ranks"], rows.shapes["ranks_per_node"]
        found = np.zeros(len(rows))
        for n, layout in {*zip(ranks.tolist(), per_node.tolist(), strict=True)}:
            here = (ranks == n) & (per_node == layout)
            found[here] = self._apart(n, layout).min()
        return found

    def beyond(self, rows: Rows) -> Floats:
        """How far a message is from those measured of its own layout, as a log."""
        ranks, per_node = rows.shapes["ranks"], rows.shapes["ranks_per_node"]
        found = np.zeros(len(rows))
        for n, layout in {*zip(ranks.tolist(), per_node.tolist(), strict=True)}:
            exact = self._exact(n, layout)
            if exact is not None:
                here = (ranks == n) & (per_node == layout)
                x, _ = self._knots(exact)
                size = _log_bus_bytes(rows.shapes.take(here), n)
                found[here] = np.maximum(x[0] - size, size - x[-1])
        return np.where(found > _CELL, found, 0)

    def _exact(self, ranks: float, per_node: float) -> int | None:
        """The curve of a layout, if it was measured."""
        found = np.flatnonzero((self.ranks == ranks) & (self.per_node == per_node))
        return int(found[0]) if len(found) else None

    def _apart(self, ranks: float, per_node: float) -> Floats:
        """How far the layout of each curve is from one that is asked, as a log."""
        in_node, asked = np.minimum(self.per_node, self.ranks), min(per_node, ranks)
        is_kind = (in_node == self.ranks) == (asked == ranks)
        is_kind &= (in_node > self.linked) == (asked > self.linked)
        apart = np.abs(np.log(self.ranks / ranks)) + np.abs(np.log(in_node / asked))
        return np.where(is_kind, apart, apart + OTHER_KIND)

    def _alike(self, ranks: float, per_node: float) -> NDArray[np.int64]:
        """Curves within one node, or over several, and over the same link, as asked.

        Else all. By ranks.

        One for each number of ranks: that of the nearest layout.
        """
        apart = self._apart(ranks, per_node)
        if apart.min() < OTHER_KIND:
            alike = np.flatnonzero(apart < OTHER_KIND)
        else:
            alike = np.arange(len(self.ranks))
        nearest = alike[np.argsort(apart[alike], kind="stable")]
        return nearest[np.unique(self.ranks[nearest], return_index=True)[1]]

    def _knots(self, curve: int) -> tuple[Floats, Floats]:
        """Sizes and times of one curve, as logarithms."""
        ends = np.append(self.first, len(self.log_ns))
        knots = slice(int(ends[curve]), int(ends[curve + 1]))
        return self.log_bytes[knots], self.log_ns[knots]

    def _curve(self, curve: int, size: Floats, *, rises: bool = False) -> Floats:
        """The curve of one number of ranks, or the rising one that is nearest to it."""
        x, y = self._knots(curve)
        if rises:
            y = rising(y)
        found = smooth(x, y, np.clip(size, x[0], x[-1]))
        is_beyond = size > x[-1]
        if is_beyond.any():
            found[is_beyond] = self._beyond(curve, x, y, size[is_beyond])
        return found

    def _beyond(self, curve: int, x: Floats, y: Floats, size: Floats) -> Floats:
        """Log time of messages that are larger than those of a curve.

        Small messages do not tell the bandwidth; what a longer curve adds does, as far
        as this one does not rise at its end.
        """
        own = _tail(x, y, size - x[-1])
        longer = self._longer(curve)
        if longer is None:
            return own
        ends = self._curve(longer, np.append(x[-1], size), rises=True)
        added = np.maximum(np.exp(ends[1:]) - np.exp(ends[0]), 0)
        theirs = np.log(np.exp(y[-1]) + added)
        own_part = _own_part(x, y)
        found: Floats = own_part * own + (1 - own_part) * theirs
        return found

    def _longer(self, curve: int) -> int | None:
        """The nearest curve of a kind that goes on where one ends."""
        ends = self.log_bytes[np.append(self.first[1:], len(self.log_ns)) - 1]
        apart = self._apart(self.ranks[curve], self.per_node[curve])
        fitting = np.flatnonzero((ends > ends[curve] + _CELL) & (apart < OTHER_KIND))
        return int(fitting[np.argmin(apart[fitting])]) if len(fitting) else None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by their names."""
        return {name: getattr(self, name) for name in (*_ARRAYS, *_ADDED)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CollectiveTable:
        """A table from a file, checked."""
        try:
            table = cls(
                *(arrays[name] for name in _ARRAYS),
                **{name: arrays[name] for name in _ADDED if name in arrays},
            )
        except KeyError as error:
            raise KernelModelError(f"a table lacks the array {error}") from error
        counts = np.diff(np.append(table.first, len(table.log_ns)))
        curves = {len(table.ranks), len(table.per_node), len(table.first)}
        if len(curves) != 1 or len(table.log_bytes) != len(table.log_ns):
            raise KernelModelError("the arrays of a table differ in length")
        if not len(counts) or table.first[0] != 0 or counts.min() < 1:
            raise KernelModelError("a curve of a table has no knots")
        if table.first.dtype.kind not in "iu" or not table._is_in_range:
            raise KernelModelError("a table is out of range")
        rises = np.diff(table.log_bytes) > 0
        rises[table.first[1:] - 1] = True
        if not rises.all():
            raise KernelModelError("the knots of a curve of a table are in no order")
        return table

    @property
    def _is_in_range(self) -> bool:
        logs = np.abs(np.append(self.log_bytes, self.log_ns))
        least = min(self.ranks.min(), self.per_node.min())
        is_linked = self.linked.shape == (1,) and self.linked[0] >= 1
        return bool(logs.max() <= _MOST_LOG and least >= 1 and is_linked)

    def constants(self) -> dict[str, float]:
        """What there is to say of it in numbers."""
        return {"curves": len(self.ranks), "knots": len(self.log_ns)}


def _log_bus_bytes(shapes: Shapes, ranks: float) -> Floats:
    """The logarithm of what each rank sends, were there so many ranks."""
    op = str(shapes.op[0]) if len(shapes) else ""
    sent = shapes["bytes"] * _sent_share(op, ranks)
    logs: Floats = np.log(np.maximum(sent, 1.0))
    return logs


def _log_sent_ratio(op: str, ranks: float, others: float) -> float:
    """How much more each of so many ranks sends than each of others, as a log.

    One rank sends nothing, which has no logarithm: 0.
    """
    shares = _sent_share(op, ranks), _sent_share(op, others)
    return float(np.log(shares[0] / shares[1])) if all(shares) else 0.0


@cache
def _sent_share(op: str, ranks: float) -> float:
    """What each of so many ranks sends of a message, by the family's relation."""
    message = float(1 << 40)
    given = pl.DataFrame({"bytes": [message], "ranks": [ranks]})
    counted = shapes_of(COLLECTIVE, given, Op(COLLECTIVE.name, op, ""))
    return float(counted["read_bytes"][0]) / message


_ARRAYS = ("ranks", "per_node", "first", "log_bytes", "log_ns")
_ADDED = ("linked",)
"""Files of earlier versions lack them."""


def smooth(x: Floats, y: Floats, at: Floats) -> Floats:
    """A monotone cubic through the knots; it leaves none of them out, and no bump.

    As SciPy's `PchipInterpolator`, whose import takes longer than all predictions.
    """
    if len(x) == 1:
        return np.full(len(at), y[0])
    width, slope = np.diff(x), np.diff(y) / np.diff(x)
    slopes = _slopes(width, slope)
    place = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(width) - 1)
    span, part = width[place], (at - x[place]) / width[place]
    left = (1 + 2 * part) * (1 - part) ** 2 * y[place]
    left += part * (1 - part) ** 2 * span * slopes[place]
    right = part**2 * (3 - 2 * part) * y[place + 1]
    found: Floats = left + right + part**2 * (part - 1) * span * slopes[place + 1]
    return found


def _slopes(width: Floats, slope: Floats) -> Floats:
    """The slope at each knot: Fritsch and Butland's, at the ends of three points."""
    if len(slope) == 1:
        return np.repeat(slope, 2)
    before, after = width[:-1], width[1:]
    early, late = slope[:-1], slope[1:]
    turns = early * late <= 0
    one, other = np.where(turns, 1, early), np.where(turns, 1, late)
    weights = 2 * after + before, after + 2 * before
    within = sum(weights) / (weights[0] / one + weights[1] / other)
    first = _end_slope(*width[:2], *slope[:2])
    last = _end_slope(*width[:-3:-1], *slope[:-3:-1])
    return np.concatenate([[first], np.where(turns, 0, within), [last]])


def _end_slope(width: float, beside: float, slope: float, next_slope: float) -> float:
    """The slope at an end, which neither turns nor overshoots."""
    found = ((2 * width + beside) * slope - width * next_slope) / (width + beside)
    if np.sign(found) != np.sign(slope):
        return 0.0
    if np.sign(slope) != np.sign(next_slope) and abs(found) > abs(3 * slope):
        return 3 * slope
    return found


def rising(y: Floats) -> Floats:
    """The nearest values that do not fall: isotonic regression by its min-max formula.

    Value i is the greatest, over starts up to i, of the least mean from there to an end
    at i or later. Importing SciPy for it would take longer than all other kernels.
    """
    sums = np.append(0, np.cumsum(y))
    start, end = np.indices((len(y), len(y)))
    means = (sums[end + 1] - sums[start]) / np.where(start <= end, end - start + 1, 1)
    least = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
    found: Floats = np.diagonal(np.maximum.accumulate(least, axis=0)).copy()
    return found


def _own_part(x: Floats, y: Floats) -> float:
    """[1] How far the end of a curve shows its bandwidth: 1 if time is size."""
    start = int(np.searchsorted(x, x[-1] - np.log(_TAIL)))
    if start == len(x) - 1:
        return 0.0
    return float(np.clip((y[-1] - y[start]) / (x[-1] - x[start]), 0, 1))


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
    ranks, per_node = rows.shapes["ranks"], rows.shapes["ranks_per_node"]
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
        rows.figures.get("linked_devices", np.full(1, np.inf))[:1],
    )


def _knots(size: Floats, log_ns: Floats) -> tuple[Floats, Floats]:
    """Medians of rows of about one size."""
    cells = np.round(size / np.log(2) * _KNOTS_PER_DOUBLING).astype(np.int64)
    found = [
        (float(np.median(size[cells == cell])), float(np.median(log_ns[cells == cell])))
        for cell in np.unique(cells)
    ]
    return np.array([x for x, _ in found]), np.array([y for _, y in found])
