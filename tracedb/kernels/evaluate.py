"""How well models predict what they have not seen, beside simpler ways."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracedb.errors import MeasurementError

from .baselines import mlp
from .blend import Answer, blended
from .families import FAMILIES
from .groups import LEAST_ROWS, groups_of
from .harnesses import are_alike, compared, harness_error
from .held_out import HeldOut, transfer_of
from .measurements import read_measurements
from .predictor import fit_predictor
from .scores import Scores, scores_of
from .splits import SEED, SPLITS
from .usual import usual_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .groups import Group
    from .predictor import Predicted, Predictor
    from .rows import Rows

MOST_ROWS = 15_000
"""Shapes of one key that are used, at random: scores hardly change with more."""
SCORES = {
    "split": pl.String,
    "family": pl.String,
    "op": pl.String,
    "dtype": pl.String,
    "hardware": pl.String,
    "predictor": pl.String,
    "gmae_share": pl.Float64,
    "mape_share": pl.Float64,
    "p90_share": pl.Float64,
    "coverage_share": pl.Float64,
    "rows": pl.Int64,
    "trained_rows": pl.Int64,
    "measured": pl.String,
    "source": pl.String,
    "software": pl.String,
}


def evaluate(
    paths: Sequence[str | Path],
    families: Sequence[str] = (),
    splits: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _line: None,
) -> pl.DataFrame:
    """Score models and baselines on rows held out by each split, key by key.

    Splits are `random`, `shape`, `largest` (`splits.py`), `hardware`: all rows of one
    piece of hardware, predicted by the models of the nearest others; and `campaign`:
    all rows of one harness, as far as they lie in the range of others on the same
    hardware, predicted by the models of those. Returns a row for each key, split and
    predictor. Raises `MeasurementError` where there is nothing to split.
    """
    parts = parts_of(paths, families, splits)
    found: list[dict[str, Any]] = []
    for number, part in enumerate(parts, 1):
        tell(f"[{number}/{len(parts)}] {part.name}")
        found.extend(part.scores())
    if not found:
        raise MeasurementError(
            f"nothing to evaluate: no kernel of {', '.join(families) or 'any family'} "
            f"was measured with {2 * LEAST_ROWS} or more shapes"
        )
    return pl.DataFrame(found, schema=SCORES)


@dataclass(frozen=True)
class Sample:
    """The rows of a key that are scored, and what is fitted to them once.

    No split's held-out rows have a part in what predicts them: its other rows tell all
    that a served model learns, which forests to believe and how wide bands are as well.
    The model that has not seen the random fifth serves other hardware, too, and other
    campaigns.
    """

    group: Group

    @property
    def rows(self) -> Rows:
        """The measured shapes."""
        return self.group.rows

    @cached_property
    def held_out(self) -> dict[str, NDArray[np.bool_]]:
        """The rows that each split holds out, of those that can split them."""
        found = {name: split(self.rows) for name, split in SPLITS.items()}
        return {
            name: rows
            for name, rows in found.items()
            if rows is not None and rows.any() and (~rows).sum() >= LEAST_ROWS
        }

    def fitted(self, split: str) -> Predictor:
        """A predictor that has not seen what a split holds out."""
        return fit_predictor(self.rows.take(~self.held_out[split]))

    @cached_property
    def predictor(self) -> Predictor:
        """One that has not seen a random fifth."""
        return self.fitted("random")


@dataclass(frozen=True)
class Part:
    """What is scored on its own: a key by its splits, or hardware against the rest."""

    samples: tuple[Sample, ...]
    splits: tuple[str, ...]
    """Those within the key, or one of `ACROSS`."""

    @property
    def name(self) -> str:
        """What it is of, in words."""
        first, *others = (sample.group.key.name for sample in self.samples)
        return f"{first} and {len(others)} more by turns" if others else first

    @property
    def families(self) -> set[str]:
        """The families that it has rows of."""
        return {sample.group.key.family for sample in self.samples}

    def digest(self) -> str:
        """Of all that its scores depend on but the code."""
        found = hashlib.sha256(repr(self.splits).encode())
        for group in (sample.group for sample in self.samples):
            rows, hardware = group.rows, group.hardware
            figures = (hardware.is_fallback, sorted(hardware.figures.items()))
            found.update(repr((group.key, figures, [*rows.shapes.sizes])).encode())
            for column in (*rows.shapes.sizes.values(), rows.time_ns):
                found.update(np.ascontiguousarray(column).tobytes())
        return found.hexdigest()[:16]

    def scores(self) -> Iterator[dict[str, Any]]:
        """A row for each split and predictor."""
        across = ACROSS.get(self.splits[0])
        return across(self.samples) if across else _within(self.samples[0], self.splits)


def parts_of(
    paths: Sequence[str | Path],
    families: Sequence[str] = (),
    splits: Sequence[str] = (),
) -> list[Part]:
    """What there is to score: each key, then hardware that is held out in turn.

    Raises `MeasurementError` for a family that there is none of.
    """
    unknown = [family for family in families if family not in FAMILIES]
    if unknown:
        raise MeasurementError(
            f"no family {', '.join(unknown)}; available: {', '.join(FAMILIES)}"
        )
    samples = [
        Sample(replace(group, rows=_some(group.rows)))
        for group in groups_of(read_measurements(paths).frame)
        if len(group.rows) >= 2 * LEAST_ROWS
        and (not families or group.key.family in families)
    ]
    wanted = splits or [*SPLITS, *ACROSS]
    within = tuple(name for name in wanted if name in SPLITS)
    parts = [Part((sample,), within) for sample in samples if within]
    if "hardware" in wanted:
        parts += [Part(tuple(members), ("hardware",)) for members in _alike(samples)]
    if "campaign" in wanted:
        twice = _measured_twice(samples)
        parts += [Part(tuple(members), ("campaign",)) for members in twice]
    return parts


def _within(sample: Sample, splits: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Scores of one key, for each split by which it can be split."""
    for split in (name for name in splits if name in sample.held_out):
        held_out = sample.held_out[split]
        train, test = sample.rows.take(~held_out), sample.rows.take(held_out)
        predictor = sample.predictor if split == "random" else sample.fitted(split)
        predicted = predictor.predict(test)
        band = (predicted.low_ns, predicted.high_ns)
        counts = {"split": split, "trained_rows": len(train)}
        score = scores_of(predicted.ns, test.time_ns, band)
        yield _row(sample.group, score, counts | {"predictor": "model"})
        simpler = {
            "datasheet": test.work.datasheet_ns,
            "roofline": predictor.core.base.predict_ns(test),
            "mlp": mlp(train, test),
        }
        for name, ns in simpler.items():
            score = scores_of(ns, test.time_ns)
            yield _row(sample.group, score, counts | {"predictor": name})


def _some(rows: Rows) -> Rows:
    chosen = np.random.default_rng(SEED).permutation(len(rows))[:MOST_ROWS]
    return rows.take(np.sort(chosen))


def _across(members: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Scores of hardware that was not measured, by the nearest of the others.

    How wide the band is, pairs say that the hardware has no part in.
    """
    groups = [member.group for member in members]
    held_out = HeldOut(groups, {m.group.key: m.predictor for m in members})
    for group in groups:
        transfer = transfer_of(group.key, held_out.held(group.key.hardware))
        answered = held_out.answered(group, transfer)
        if answered is None:
            continue
        rows, predicted, is_near = answered
        trained = sum(len(other.rows) for other in groups if other is not group)
        counts = {"split": "hardware", "trained_rows": trained}
        found = transfer.of(is_near=is_near).banded(predicted)
        yield from _scored(replace(group, rows=rows), found, counts)


def _campaigns(members: Sequence[Sample]) -> Iterator[dict[str, Any]]:
    """Scores of one harness by the models of all others on the same hardware.

    How wide the band is, pairs say that the harness has no part in.
    """
    groups = [member.group for member in members]
    predictors = {member.group.key: member.predictor for member in members}
    comparisons = compared(groups, predictors)
    for group in groups:
        others = [other for other in groups if are_alike(group.key, other.key)]
        answers = [Answer(predictors[o.key].predict(group.rows), 0.0) for o in others]
        predicted = blended(answers)
        known = predicted.away == 0
        if not known.any():
            continue
        part = replace(group, rows=group.rows.take(known))
        rest = [each for each in comparisons if not each.has(group.key)]
        wide = predicted.take(known)
        factor = np.exp(harness_error(group.key, rest).of(wide.ns))
        counts = {
            "split": "campaign",
            "trained_rows": sum(len(other.rows) for other in others),
        }
        yield from _scored(part, wide.at_least(factor), counts)


def _scored(
    group: Group, predicted: Predicted, counts: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows of a model, and of the usual roofline and the data sheet beside it."""
    band = (predicted.low_ns, predicted.high_ns)
    score = scores_of(predicted.ns, group.rows.time_ns, band)
    yield _row(group, score, counts | {"predictor": "model"})
    for name, ns in (
        ("usual", usual_ns(group.rows)),
        ("datasheet", group.rows.work.datasheet_ns),
    ):
        score = scores_of(ns, group.rows.time_ns)
        yield _row(group, score, counts | {"predictor": name})


ACROSS: Mapping[str, Callable[[Sequence[Sample]], Iterator[dict[str, Any]]]] = {
    "hardware": _across,
    "campaign": _campaigns,
}
"""What is held out in turn, of several keys."""


def _alike(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Keys that differ in their hardware, which is listed, and harness alone.

    Of several harnesses on one piece of hardware, the one with most rows.
    """
    found: dict[tuple[str, ...], dict[str, Sample]] = {}
    for sample in sorted(samples, key=lambda sample: len(sample.rows)):
        key = sample.group.key
        if not sample.group.hardware.is_fallback:
            same = (key.family, key.op, key.dtype, key.measured, key.source)
            found.setdefault(same, {})[key.hardware] = sample
    return [[*members.values()] for members in found.values() if len(members) > 1]


def _measured_twice(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Of each family, keys that another one differs from in its harness alone."""
    twice = [
        sample
        for sample in samples
        if any(are_alike(sample.group.key, other.group.key) for other in samples)
    ]
    for family in dict.fromkeys(sample.group.key.family for sample in twice):
        yield [sample for sample in twice if sample.group.key.family == family]


def _row(group: Group, score: Scores, reported: dict[str, Any]) -> dict[str, Any]:
    return asdict(group.key) | asdict(score) | reported
