"""Fit and predict: a base (roofline or table), forests on its residual, bands.

A row lies at one of these distances from what was measured:

- `known`: its sizes lie in the range, and the sizes that belong together (a weight's n
  and k, a row's width) were measured in this combination;
- `new`: in the range, but not in this combination;
- `beyond`: outside of the range of a size, of FLOPs or of bytes.

Held-out rows decide which forests are believed in the range, how fast that belief fades
beyond it, and how wide the band is at each distance: folds at random, folds of whole
combinations, and the largest fifth. Predictions have no step where a range ends: the
residual fades with the logarithm of how far beyond a row is, and leaves the roofline.
None is below what the data sheet allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from tracedb.errors import KernelModelError

from .bands import EVEN, HIGH, Band, Growth, band_of, growth_of
from .collective_table import CollectiveTable, fit_table
from .features import features_of
from .residual import FORESTS, LEAST_ROWS, MIXES, fit_forests, mixed
from .roofline import Roofline, fit_roofline
from .scores import Scores, scores_of
from .support import NOWHERE, Support, holes, support_of
from .usual import unaligned_factor
from .work import LINK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from .families import Floats
    from .rows import Rows
    from .trees import Forest

DISTANCES = ("known", "new", "beyond")
_CLIP = (0.002, 0.998)
_FOLDS = 3
_ENOUGH = 1_200
"""Held-out rows that tell forests apart and fill every bin of a band: of many rows, a
fold or two have so many."""
_TRIAL_ROWS = 4_000
_LARGEST_ROWS = 12_000
"""Rows of which the largest are held out: how far to believe what a third of them say
came out too small, and the largest products of an H100 a tenth worse."""
_HOLE_ROWS = 2_000
_HOLES = 6
"""How many gaps and corners are held out, each of so many rows."""
_GRID = 4
"""Rows of each combination from which combinations are a distance of their own."""
_WITHIN = DISTANCES[:2]
_AS_STATED = 1.5
"""Rows whose errors are up to so many times the stated ones are in range."""
_LEAST_TRIAL = 8
_TOLERANCE = 1e-6
_LEARNING = 0.12
"""Errors within the range fall with this power of the number of rows: 4.4 % of 200,
3 % of 1,000 and 2.2 % of 12,000 products. Trials have fewer rows than the model."""
_UNTRIED = (2.0, 0.1)
"""How much wider a band gets at a distance at which nothing could be tried, and the
least log error that is then allowed for."""
_REACHES = (0.35, 1.0, 3.0, 10.0)
"""Logs of how far beyond the range the residual has lost 63 %: one is chosen. By the
last, shapes ten times as large keep 80 %, for GPUs whose rooflines miss all large ones
by the same."""
_USUAL_REACH = 1.0
_UNALIGNED = "log_unaligned"
"""How many times as long rows without whole 16 bytes take, as a logarithm; files of
earlier versions do not say what was measured of them."""


@dataclass(frozen=True)
class Core:
    """What is fitted to rows, before anything is held out."""

    base: Roofline | CollectiveTable
    forests: Mapping[str, Forest]
    feature_names: tuple[str, ...]
    """What the columns that the forests compare are."""
    clip: tuple[float, float]
    """Smallest and largest residual believed."""
    range: Mapping[str, tuple[float, float]]
    """Smallest and largest of each feature that says whether a row is in range."""
    known: NDArray[np.uint64]
    """Combinations that were measured, sorted; none where hardly any comes twice."""
    support: Support = NOWHERE
    """Where in the range shapes were measured."""

    def features(self, rows: Rows) -> NDArray[np.float32]:
        """The features, column by column."""
        found = _features(rows, self.base)
        if tuple(found) != self.feature_names:
            raise KernelModelError(
                "a model was trained with features that this version does not have; "
                "train it again with `tracedb kernels train`"
            )
        return np.stack(list(found.values()))

    def residuals(self, rows: Rows) -> dict[str, Floats]:
        """What each forest adds to the logarithm of the base."""
        if not self.forests or not len(rows):
            return {}
        features = self.features(rows)
        return {
            name: np.clip(forest.predict(features), *self.clip)
            for name, forest in self.forests.items()
        }

    def distance(self, rows: Rows, outside: Floats) -> NDArray[np.str_]:
        """How far each row lies from what was measured, given how far outside."""
        found = np.full(len(rows), "new", dtype="<U6")
        if len(self.known):
            combination = rows.codes(rows.family.group)
            found[np.isin(combination, self.known)] = "known"
        found[outside > 0] = "beyond"
        return found

    def outside(self, rows: Rows) -> Floats:
        """How far beyond the range a row is, as a logarithm: 0.7 is twice as far.

        Of collectives, each layout has its own range of messages, and those that were
        not measured are beyond it.
        """
        found = np.zeros(len(rows))
        for name, values in rows.logs.items():
            low, high = self.range[name]
            over = np.maximum(low - values, values - high)
            np.maximum(found, np.where(over > _TOLERANCE, over, 0), out=found)
        if isinstance(self.base, CollectiveTable):
            found = np.maximum(found, self.base.beyond(rows)) + self.base.away(rows)
        return found


def fit_core(
    rows: Rows,
    kinds: Sequence[str] = FORESTS,
    like: Roofline | None = None,
    *,
    is_trial: bool = False,
) -> Core:
    """Fit a base and forests of some kinds to all of some rows.

    How the bounds of the base join is tried out, or as another has it. Trials have
    half as many trees.
    """
    base = fit_base(rows, like)
    residual = np.log(rows.time_ns / base.predict_ns(rows))
    low, high = np.quantile(residual, _CLIP).tolist()
    codes = np.unique(rows.codes(rows.family.group))
    names = tuple(_features(rows.take(np.arange(1)), base))
    core = Core(
        base,
        {},
        names,
        (low, high),
        {n: (float(v.min()), float(v.max())) for n, v in _ranged(rows).items()},
        codes if rows.family.group and len(codes) * _GRID <= len(rows) else codes[:0],
        support_of(rows),
    )
    if isinstance(base, CollectiveTable) or len(rows) < LEAST_ROWS:
        return core
    forests = fit_forests(core.features(rows).T, residual, kinds, is_trial=is_trial)
    return replace(core, forests=forests)


def _ranged(rows: Rows) -> dict[str, Floats]:
    if rows.family.name != "gemm":
        return rows.logs
    return rows.logs | {_UNALIGNED: np.log(unaligned_factor(rows))}


def _features(
    rows: Rows, base: Roofline | CollectiveTable
) -> dict[str, NDArray[np.float32]]:
    return features_of(rows, base if isinstance(base, Roofline) else None)


def fit_base(rows: Rows, like: Roofline | None = None) -> Roofline | CollectiveTable:
    """The table of a cluster's collectives, or the calibrated roofline."""
    is_cluster = rows.family.name == "collective" and len({*rows.figures[LINK]}) == 1
    return fit_table(rows) if is_cluster else fit_roofline(rows, like)


@dataclass(frozen=True)
class Trial:
    """Held-out rows, as cores predicted them that had not seen them."""

    base_ns: Floats
    residuals: Mapping[str, Floats]
    away: Floats
    nearest: Floats
    """How far the nearest measured shape is."""
    least_ns: Floats
    datasheet_ns: Floats
    measured_ns: Floats

    def __len__(self) -> int:
        """How many rows were held out."""
        return len(self.measured_ns)

    def predicted_ns(self, mix: str, reach: float) -> Floats:
        """[ns] What a mix of forests predicted; the base where too few rows had any."""
        mix = mix if mix in self.mixes else "base"
        added = mixed(mix, self.residuals, len(self)) * np.exp(-self.away / reach)
        return np.maximum(self.base_ns * np.exp(added), self.least_ns)

    def error(self, mix: str, reach: float) -> float:
        """The mean error of the logarithm."""
        off = np.log(self.predicted_ns(mix, reach) / self.measured_ns)
        return float(np.mean(np.minimum(np.abs(off), 1)))

    @property
    def mixes(self) -> list[str]:
        """Those that the forests allow."""
        return [m for m, p in MIXES.items() if p.keys() <= self.residuals.keys()]


@dataclass(frozen=True)
class Predicted:
    """Predictions of some rows."""

    ns: Floats
    low_ns: Floats
    high_ns: Floats
    away: Floats
    """How far beyond the range, or in a gap of it, as a logarithm; 0 near data."""

    def take(self, chosen: NDArray[np.bool_]) -> Predicted:
        """Some of the rows."""
        times = (self.ns, self.low_ns, self.high_ns, self.away)
        return Predicted(*(time[chosen] for time in times))

    def error_elsewhere(self, error: Floats) -> Floats:
        """[1] The log error of another harness, given what it is in range.

        Harnesses were compared there; elsewhere the model's own error joins, as large
        as half the band and independent.
        """
        half = np.log(self.high_ns / self.low_ns) / 2
        return np.where(self.away > 0, np.hypot(error, half), error)

    def widened(self, factor: float) -> Predicted:
        """The same with bands that are so much farther on both sides."""
        return replace(self, low_ns=self.low_ns / factor, high_ns=self.high_ns * factor)

    def at_least(self, factor: Floats | float) -> Predicted:
        """The same with bands that are no narrower than this to either side."""
        low = np.minimum(self.low_ns, self.ns / factor)
        high = np.maximum(self.high_ns, self.ns * factor)
        return replace(self, low_ns=low, high_ns=high)

    def bounded(self, least_ns: Floats) -> Predicted:
        """The same with bands that begin no lower than this."""
        low = np.maximum(self.low_ns, np.minimum(least_ns, self.ns))
        return replace(self, low_ns=low)

    def shifted(self, ns: Floats) -> Predicted:
        """The same with predictions of these times, and bands in proportion."""
        scale = ns / self.ns
        return replace(
            self, ns=ns, low_ns=self.low_ns * scale, high_ns=self.high_ns * scale
        )


@dataclass(frozen=True)
class Predictor:
    """A core with what was learnt from held-out rows about each distance."""

    core: Core
    mix: str
    """How forests are weighed, of `MIXES`."""
    reach: float
    """How far beyond the range the residual is believed, as a logarithm."""
    bands: Mapping[str, Band]
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """Of held-out rows, by distance."""
    growth: Growth = EVEN
    """By how much bands within the range widen as the nearest shape gets farther."""
    datasheet_scores: Mapping[str, Scores] = field(default_factory=dict)
    """Of the same rows, those of the data sheet's roofline."""

    def predict(self, rows: Rows) -> Predicted:
        """Predict each row, with its band."""
        trial = _trial(self.core, rows)
        ns = trial.predicted_ns(self.mix, self.reach)
        # Of rows less aligned than all that were measured, a forest knows nothing.
        _, most = self.core.range.get(_UNALIGNED, (0, np.inf))
        factor = np.maximum(unaligned_factor(rows) / np.exp(most), 1)
        ns = ns * factor
        outside = np.maximum(trial.away, np.log(factor))
        distance = self.core.distance(rows, outside)
        added = np.where(outside > 0, 0.0, self.growth.of(trial.nearest))
        low, high = np.empty(len(rows)), np.empty(len(rows))
        for name in DISTANCES:
            here = distance == name
            low[here], high[here] = self.bands[name].around(ns[here], added[here])
        away = np.maximum(outside, trial.nearest - self.near)
        return Predicted(ns, np.maximum(low, trial.least_ns), high, away)

    @property
    def near(self) -> float:
        """Up to which distance of the nearest shape errors are as stated."""
        stated = min(self.bands[name].typical for name in _WITHIN)
        return self.growth.reach((_AS_STATED - 1) * stated)

    def in_range(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether every size, FLOPs and bytes are between the measured ones.

        And the nearest measured shape is so near that the error is as stated.
        """
        is_near = self.core.support.nearest(rows) <= self.near
        inside: NDArray[np.bool_] = (self.core.outside(rows) == 0) & is_near
        return inside


def fit_predictor(rows: Rows, kinds: Sequence[str] = FORESTS) -> Predictor:
    """Fit a predictor for the hardware of the rows, with forests of some kinds.

    Rows that are held out in several ways say which forests to believe.
    """
    base = fit_base(_some(rows))
    like = base if isinstance(base, Roofline) else None
    trials = _tried(rows, kinds, like)
    mix, reach = _chosen(trials)
    kinds = [kind for kind in kinds if kind in MIXES[mix]]
    bands, scores, plain = {}, {}, {}
    for name, trial in trials.items():
        predicted_ns = trial.predicted_ns(mix, reach)
        bands[name] = band_of(predicted_ns, trial.measured_ns)
        scores[name] = scores_of(predicted_ns, trial.measured_ns)
        plain[name] = scores_of(trial.datasheet_ns, trial.measured_ns)
    growth = _growth(
        {name: trial for name, trial in trials.items() if name in _WITHIN},
        _holes(rows, kinds, like),
        lambda name, trial: bands[name].missed(
            trial.predicted_ns(mix, reach), trial.measured_ns
        ),
    )
    seen = min(_TRIAL_ROWS / len(rows), 1.0) * (1 - 1 / _FOLDS)
    for name in bands.keys() - {"beyond"}:
        bands[name] = bands[name].narrowed(seen**_LEARNING)
    nearest = next(name for name in DISTANCES if name in bands)
    for name in DISTANCES:
        if name not in bands:
            is_farther = DISTANCES.index(name) > DISTANCES.index(nearest)
            untried = _UNTRIED if is_farther else (1.0, 0.0)
            bands[name] = bands[nearest].widened(*untried)
        nearest = name
    core = fit_core(rows, kinds, like)
    return Predictor(core, mix, reach, bands, scores, growth, plain)


def _growth(
    trials: Mapping[str, Trial],
    holes: Iterator[tuple[str, Trial]],
    missed: Callable[[str, Trial], Floats],
) -> Growth:
    """How much wider bands have to be in holes of the range.

    They hold as they are at the distances that half of the rows of the trials have, and
    most of the others.
    """
    within = [(name, trial) for name, trial in holes if name in trials]
    if not within:
        return EVEN
    near = np.concatenate([trial.nearest for trial in trials.values()])
    return growth_of(
        (float(np.median(near)), float(np.quantile(near, HIGH))),
        np.concatenate([trial.nearest for _, trial in within]),
        np.concatenate([missed(name, trial) for name, trial in within]),
    )


def _chosen(trials: Mapping[str, Trial]) -> tuple[str, float]:
    """The mix of least error within the range, and the reach of least beyond it."""
    inside = [trial for name, trial in trials.items() if name != "beyond"]
    whole = _joined(inside or [*trials.values()])
    mix = min(whole.mixes, key=lambda mix: whole.error(mix, _USUAL_REACH))
    beyond = trials.get("beyond")
    if beyond is None:
        return mix, _USUAL_REACH
    return mix, min(_REACHES, key=lambda reach: beyond.error(mix, reach))


def _some(rows: Rows, most: int = _TRIAL_ROWS) -> Rows:
    if len(rows) <= most:
        return rows
    chosen = np.random.default_rng(0).permutation(len(rows))[:most]
    return rows.take(np.sort(chosen))


def _tried(rows: Rows, kinds: Sequence[str], like: Roofline | None) -> dict[str, Trial]:
    """Trials of the rows that folds held out, by their distance."""
    found: dict[str, list[Trial]] = {}
    for fitted, test in chain(
        _folds(_some(rows)), _largest(_some(rows, _LARGEST_ROWS))
    ):
        core = fit_core(fitted, kinds, like, is_trial=True)
        for name, trial in _by_distance(core, test):
            found.setdefault(name, []).append(trial)
    trials = {name: _joined(parts) for name, parts in found.items()}
    return {n: t for n, t in trials.items() if len(t) >= _LEAST_TRIAL} or {
        "new": _joined([trial for parts in found.values() for trial in parts])
    }


def _holes(
    rows: Rows, kinds: Sequence[str], like: Roofline | None
) -> Iterator[tuple[str, Trial]]:
    """Trials of rows that make a gap in the range when they are held out."""
    some = _some(rows, _HOLE_ROWS)
    for is_held in holes(some, _HOLES):
        if LEAST_ROWS <= is_held.sum() <= len(some) - LEAST_ROWS:
            core = fit_core(some.take(~is_held), kinds, like, is_trial=True)
            yield from _by_distance(core, some.take(is_held))


def _by_distance(core: Core, test: Rows) -> Iterator[tuple[str, Trial]]:
    """Trials of the held-out rows of each distance."""
    distance = core.distance(test, core.outside(test))
    for name in np.unique(distance).tolist():
        yield name, _trial(core, test.take(distance == name))


def _folds(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Rows to fit to, and rows at random to hold out; then whole combinations."""
    random = np.random.default_rng(0)
    kinds, kind = np.unique(rows.codes(rows.family.group), return_inverse=True)
    folds = [random.permutation(len(rows)) % _FOLDS]
    if rows.family.group and _FOLDS <= len(kinds) <= len(rows) // 2:
        folds.append((random.permutation(len(kinds)) % _FOLDS)[kind])
    count = min(_FOLDS, -(-_FOLDS * _ENOUGH // len(rows)))
    for fold in folds:
        yield from ((rows.take(fold != n), rows.take(fold == n)) for n in range(count))


def _largest(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Rows to fit to, and larger ones to hold out.

    The last fifth behind all smaller ones, and the fifth before it behind the smallest
    three.
    """
    for share, until in ((0.8, 1.0), (0.6, 0.8)):
        least, most = np.quantile(rows.size, (share, until))
        larger = (rows.size > least) & (rows.size <= most)
        if larger.any():
            yield rows.take(rows.size <= least), rows.take(larger)


def _trial(core: Core, rows: Rows) -> Trial:
    return Trial(
        core.base.predict_ns(rows),
        core.residuals(rows),
        core.outside(rows),
        core.support.nearest(rows),
        rows.least_ns,
        rows.work.datasheet_ns,
        rows.time_ns,
    )


def _joined(trials: list[Trial]) -> Trial:
    names = set.intersection(*(set(trial.residuals) for trial in trials))

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(trial, name) for trial in trials])

    return Trial(
        joined("base_ns"),
        {n: np.concatenate([t.residuals[n] for t in trials]) for n in names},
        joined("away"),
        joined("nearest"),
        joined("least_ns"),
        joined("datasheet_ns"),
        joined("measured_ns"),
    )
