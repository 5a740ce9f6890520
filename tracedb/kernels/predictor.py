"""Fit and predict: a base (roofline or table), forests on its residual, bands.

A row lies at one of these distances from what was measured:

- `known`: its sizes lie in the range, and the sizes that belong together (a weight's n
  and k, a row's width) were measured in this combination;
- `new`: in the range, but not in this combination;
- `beyond`: outside of the range of a size, of FLOPs or of bytes;
- `unseen`: on hardware that was not measured.

Held-out rows at each distance decide how much of the residual to believe there, and
how wide the band is: folds at random, folds of whole combinations, the largest fifth,
and whole pieces of hardware.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from tracedb.errors import KernelModelError

from .bands import Band, band_of
from .collective_table import CollectiveTable, fit_table
from .features import features_of, sizes_of
from .residual import LEAST_ROWS, MIXES, fit_forests, mixed
from .roofline import Roofline, fit_roofline
from .rows import together
from .scores import Scores, scores_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from .families import Floats
    from .rows import Rows
    from .trees import Forest

DISTANCES = ("known", "new", "beyond", "unseen")
_CLIP = (0.002, 0.998)
_FOLDS = 3
_TRIAL_ROWS = 6_000
_GRID = 4
"""Rows of each combination from which combinations are a distance of their own."""
_LEAST_TRIAL = 8
_TOLERANCE = 1e-6
_LEARNING = 0.12
"""Errors within the range fall with this power of the number of rows: 4.4 % of 200,
3 % of 1,000 and 2.2 % of 12,000 products. Trials have fewer rows than the model."""
_UNTRIED = (2.0, 0.1)
"""How much wider a band gets at a distance at which nothing could be tried, and the
least log error that is then allowed for."""
_UNSEEN = 0.7
"""Log error that a single piece of hardware says nothing about: a factor of two."""


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

    def features(self, rows: Rows) -> NDArray[np.float32]:
        """The features, column by column."""
        found = _features(rows, self.base)
        if tuple(found) != self.feature_names:
            raise KernelModelError(
                "a model was trained with other features than this tracedb has; "
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

    def distance(self, rows: Rows) -> NDArray[np.str_]:
        """How far each row lies from what was measured."""
        found = np.full(len(rows), "new", dtype="<U6")
        if len(self.known):
            combination = rows.codes(rows.family.group)
            found[np.isin(combination, self.known)] = "known"
        found[~self.in_range(rows)] = "beyond"
        return found

    def in_range(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether every size, FLOPs and bytes are between the measured ones."""
        inside = np.ones(len(rows), np.bool_)
        for name, values in sizes_of(rows).items():
            low, high = self.range[name]
            inside &= (values >= low - _TOLERANCE) & (values <= high + _TOLERANCE)
        return inside


def fit_core(rows: Rows) -> Core:
    """Fit a base and forests to all of some rows."""
    base = fit_base(rows)
    residual = np.log(rows.time_ns / base.predict_ns(rows))
    low, high = np.quantile(residual, _CLIP).tolist()
    codes = np.unique(rows.codes(rows.family.group))
    names = tuple(_features(rows.take(np.arange(1)), base))
    core = Core(
        base,
        {},
        names,
        (low, high),
        {n: (float(v.min()), float(v.max())) for n, v in sizes_of(rows).items()},
        codes if rows.family.group and len(codes) * _GRID <= len(rows) else codes[:0],
    )
    if isinstance(base, CollectiveTable) or len(rows) < LEAST_ROWS:
        return core
    forests = fit_forests(core.features(rows).T, residual)
    return replace(core, forests=forests)


def _features(
    rows: Rows, base: Roofline | CollectiveTable
) -> dict[str, NDArray[np.float32]]:
    return features_of(rows, base if isinstance(base, Roofline) else None)


def fit_base(rows: Rows) -> Roofline | CollectiveTable:
    """The table of a cluster's collectives, or the calibrated roofline."""
    is_cluster = rows.family.name == "collective" and len(set(rows.work.bandwidth)) == 1
    return fit_table(rows) if is_cluster else fit_roofline(rows)


@dataclass(frozen=True)
class Trial:
    """Held-out rows of one distance, as cores predicted them that had not seen them."""

    base_ns: Floats
    residuals: Mapping[str, Floats]
    measured_ns: Floats

    def predicted_ns(self, mix: str) -> Floats:
        """[ns] What a mix of forests predicted."""
        added = mixed(mix, self.residuals, len(self.base_ns))
        return self.base_ns * np.exp(added)

    def best_mix(self) -> str:
        """The mix with the least error of the logarithm."""
        mixes = [
            m for m, parts in MIXES.items() if parts.keys() <= self.residuals.keys()
        ]

        def error(mix: str) -> float:
            off = np.log(self.predicted_ns(mix) / self.measured_ns)
            return float(np.mean(np.minimum(np.abs(off), 1)))

        return min(mixes, key=error)


@dataclass(frozen=True)
class Predicted:
    """Predictions of some rows."""

    ns: Floats
    low_ns: Floats
    high_ns: Floats
    distance: NDArray[np.str_]

    def widened(self, power: float) -> Predicted:
        """The same with bands as much wider, on the logarithm."""
        low = self.ns * (self.low_ns / self.ns) ** power
        return replace(
            self, low_ns=low, high_ns=self.ns * (self.high_ns / self.ns) ** power
        )

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
    mixes: Mapping[str, str]
    bands: Mapping[str, Band]
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """Of held-out rows, by distance."""

    def predict(self, rows: Rows) -> Predicted:
        """Predict each row, with its band."""
        distance = self.core.distance(rows)
        if "unseen" in self.bands:
            distance[:] = "unseen"
        residuals = self.core.residuals(rows)
        ns = self.core.base.predict_ns(rows)
        low, high = np.empty(len(rows)), np.empty(len(rows))
        for name in np.unique(distance).tolist():
            here = distance == name
            parts = {forest: values[here] for forest, values in residuals.items()}
            ns[here] *= np.exp(mixed(self.mixes[name], parts, int(here.sum())))
            low[here], high[here] = self.bands[name].around(ns[here])
        return Predicted(ns, low, high, distance)


def fit_predictor(rows: Rows) -> Predictor:
    """Fit a predictor for the hardware of the rows."""
    tried = _some(rows)
    mixes, bands, scores = _learnt(_tried(tried))
    seen = len(tried) * (1 - 1 / _FOLDS) / len(rows)
    for name in bands.keys() - {"beyond"}:
        bands[name] = bands[name].narrowed(seen**_LEARNING)
    nearest = next(name for name in DISTANCES if name in bands)
    for name in ("known", "new", "beyond"):
        if name not in bands:
            is_farther = DISTANCES.index(name) > DISTANCES.index(nearest)
            untried = _UNTRIED if is_farther else (1.0, 0.0)
            mixes[name] = mixes[nearest]
            bands[name] = bands[nearest].widened(*untried)
        nearest = name
    return Predictor(fit_core(rows), mixes, bands, scores)


def fit_pooled(parts: list[Rows]) -> Predictor:
    """Fit a predictor for hardware that was not measured, to all that was.

    The band is the widest that any piece of hardware needed when it was held out.
    """
    parts = [_some(part, _TRIAL_ROWS // 2) for part in parts]
    whole = fit_core(together(parts))
    if len(parts) == 1:
        band = Band(np.zeros(1), np.array([-_UNSEEN]), np.array([_UNSEEN]))
        return Predictor(whole, {"unseen": "base"}, {"unseen": band})
    tried = []
    for left_out, part in enumerate(parts):
        others = [other for n, other in enumerate(parts) if n != left_out]
        core = fit_core(together(others))
        tried.append(_trial(core, part))
    mix = _joined(tried).best_mix()
    bands = [band_of(t.predicted_ns(mix), t.measured_ns) for t in tried]
    low = min(float(np.min(band.low)) for band in bands)
    high = max(float(np.max(band.high)) for band in bands)
    every = _joined(tried)
    return Predictor(
        whole,
        {"unseen": mix},
        {"unseen": Band(np.zeros(1), np.array([low]), np.array([high]))},
        {"unseen": scores_of(every.predicted_ns(mix), every.measured_ns)},
    )


def _some(rows: Rows, most: int = _TRIAL_ROWS) -> Rows:
    if len(rows) <= most:
        return rows
    chosen = np.random.default_rng(0).permutation(len(rows))[:most]
    return rows.take(np.sort(chosen))


def _tried(rows: Rows) -> dict[str, Trial]:
    """Trials of the rows that folds held out, by their distance."""
    found: dict[str, list[Trial]] = {}
    for fitted, held_out in _folds(rows):
        core = fit_core(rows.take(fitted))
        test = rows.take(held_out)
        distance = core.distance(test)
        for name in np.unique(distance).tolist():
            found.setdefault(name, []).append(_trial(core, test.take(distance == name)))
    trials = {name: _joined(parts) for name, parts in found.items()}
    return {n: t for n, t in trials.items() if len(t.measured_ns) >= _LEAST_TRIAL} or {
        "new": _joined([trial for parts in found.values() for trial in parts])
    }


def _folds(rows: Rows) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Which rows to fit to, and which to hold out.

    Held out are rows at random, whole combinations, and the largest rows: the last
    fifth behind all smaller ones, and the fifth before it behind the smallest three.
    """
    random = np.random.default_rng(0)
    fold = random.permutation(len(rows)) % _FOLDS
    yield from ((fold != n, fold == n) for n in range(_FOLDS))
    kinds, kind = np.unique(rows.codes(rows.family.group), return_inverse=True)
    if rows.family.group and _FOLDS <= len(kinds) <= len(rows) // 2:
        fold = (random.permutation(len(kinds)) % _FOLDS)[kind]
        yield from ((fold != n, fold == n) for n in range(_FOLDS))
    for fitted, until in ((0.8, 1.0), (0.6, 0.8)):
        least, most = np.quantile(rows.size, (fitted, until))
        small, larger = rows.size <= least, (rows.size > least) & (rows.size <= most)
        if larger.any():
            yield small, larger


def _trial(core: Core, rows: Rows) -> Trial:
    return Trial(core.base.predict_ns(rows), core.residuals(rows), rows.time_ns)


def _joined(trials: list[Trial]) -> Trial:
    names = set.intersection(*(set(trial.residuals) for trial in trials))
    return Trial(
        np.concatenate([trial.base_ns for trial in trials]),
        {n: np.concatenate([t.residuals[n] for t in trials]) for n in names},
        np.concatenate([trial.measured_ns for trial in trials]),
    )


def _learnt(
    trials: Mapping[str, Trial],
) -> tuple[dict[str, str], dict[str, Band], dict[str, Scores]]:
    """The mix, the band and the scores of each distance that was tried."""
    mixes = {name: trial.best_mix() for name, trial in trials.items()}
    bands, scores = {}, {}
    for name, trial in trials.items():
        predicted_ns = trial.predicted_ns(mixes[name])
        bands[name] = band_of(predicted_ns, trial.measured_ns)
        scores[name] = scores_of(predicted_ns, trial.measured_ns)
    return mixes, bands, scores
