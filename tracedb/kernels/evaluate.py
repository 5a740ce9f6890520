"""How well models predict what they have not seen, beside simpler ways."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracedb.errors import MeasurementError

from .baselines import BASELINES
from .blend import Answer, blended
from .families import FAMILIES
from .groups import LEAST_ROWS, groups_of
from .harnesses import are_alike, harness_errors
from .measurements import read_measurements
from .predictor import fit_predictor
from .scores import Scores, scores_of
from .splits import SEED, SPLITS
from .transfer import moved_from, neighbours, transfer_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from .groups import Group
    from .predictor import Predicted
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
    piece of hardware, predicted by the model of the nearest other one; and `campaign`:
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
            f"was measured at {2 * LEAST_ROWS} or more shapes"
        )
    return pl.DataFrame(found, schema=SCORES)


@dataclass(frozen=True)
class Part:
    """What is scored on its own: a key by its splits, or hardware against the rest."""

    groups: tuple[Group, ...]
    splits: tuple[str, ...]
    """Those within the key, or one of `ACROSS`."""

    @property
    def name(self) -> str:
        """What it is of, in words."""
        first, *others = (group.key.name for group in self.groups)
        return f"{first} and {len(others)} more by turns" if others else first

    @property
    def families(self) -> set[str]:
        """The families that it has rows of."""
        return {group.key.family for group in self.groups}

    def digest(self) -> str:
        """Of all that its scores depend on but the code."""
        found = hashlib.sha256(repr(self.splits).encode())
        for group in self.groups:
            rows, hardware = group.rows, group.hardware
            figures = (hardware.is_fallback, sorted(hardware.figures.items()))
            found.update(repr((group.key, figures, [*rows.shapes.sizes])).encode())
            for column in (*rows.shapes.sizes.values(), rows.time_ns):
                found.update(np.ascontiguousarray(column).tobytes())
        return found.hexdigest()[:16]

    def scores(self) -> Iterator[dict[str, Any]]:
        """A row for each split and predictor."""
        across = ACROSS.get(self.splits[0])
        return across(self.groups) if across else _within(self.groups[0], self.splits)


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
            f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}"
        )
    groups = [
        group
        for group in groups_of(read_measurements(paths).frame)
        if len(group.rows) >= 2 * LEAST_ROWS
        and (not families or group.key.family in families)
    ]
    wanted = splits or [*SPLITS, *ACROSS]
    within = tuple(name for name in wanted if name in SPLITS)
    parts = [Part((group,), within) for group in groups if within]
    if "hardware" in wanted:
        parts += [Part(tuple(members), ("hardware",)) for members in _alike(groups)]
    if "campaign" in wanted:
        twice = _measured_twice(groups)
        parts += [Part(tuple(members), ("campaign",)) for members in twice]
    return parts


def _within(group: Group, splits: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Scores of one key, for each split by which it can be split."""
    rows = _some(group.rows)
    for split in splits:
        held_out = SPLITS[split](rows)
        if held_out is None or not held_out.any() or (~held_out).sum() < LEAST_ROWS:
            continue
        train, test = rows.take(~held_out), rows.take(held_out)
        predicted = fit_predictor(train).predict(test)
        band = (predicted.low_ns, predicted.high_ns)
        counts = {"split": split, "trained_rows": len(train)}
        score = scores_of(predicted.ns, test.time_ns, band)
        yield _row(group, score, counts | {"predictor": "model"})
        for name, baseline in BASELINES.items():
            score = scores_of(baseline(train, test), test.time_ns)
            yield _row(group, score, counts | {"predictor": name})


def _some(rows: Rows) -> Rows:
    chosen = np.random.default_rng(SEED).permutation(len(rows))[:MOST_ROWS]
    return rows.take(np.sort(chosen))


def _across(members: Sequence[Group]) -> Iterator[dict[str, Any]]:
    """Scores of hardware that was not measured, by the nearest of the others."""
    predictors = {g.key: fit_predictor(_some(g.rows)) for g in members}
    errors = transfer_errors(members, predictors)
    for group, other in neighbours(members):
        predicted = moved_from(other, predictors[other.key], group.rows)
        predicted = predicted.widened(float(np.exp(errors[group.key.family])))
        counts = {"split": "hardware", "trained_rows": len(other.rows)}
        yield from _scored(group, predicted, counts)


def _campaigns(members: Sequence[Group]) -> Iterator[dict[str, Any]]:
    """Scores of one harness by the models of all others on the same hardware."""
    predictors = {g.key: fit_predictor(_some(g.rows)) for g in members}
    errors = harness_errors(members, predictors)
    for group in members:
        others = [other for other in members if other is not group]
        answers = [Answer(predictors[o.key].predict(group.rows), 0.0) for o in others]
        predicted = blended(answers)
        known = predicted.away == 0
        if not known.any():
            continue
        part = replace(group, rows=group.rows.take(known))
        factor = float(np.exp(errors[group.key.family]))
        counts = {
            "split": "campaign",
            "trained_rows": sum(len(other.rows) for other in others),
        }
        yield from _scored(part, predicted.take(known).widened(factor), counts)


def _scored(
    group: Group, predicted: Predicted, counts: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Rows of a model, and of the data sheet beside it."""
    band = (predicted.low_ns, predicted.high_ns)
    score = scores_of(predicted.ns, group.rows.time_ns, band)
    yield _row(group, score, counts | {"predictor": "model"})
    score = scores_of(group.rows.work.datasheet_ns, group.rows.time_ns)
    yield _row(group, score, counts | {"predictor": "datasheet"})


ACROSS: Mapping[str, Callable[[Sequence[Group]], Iterator[dict[str, Any]]]] = {
    "hardware": _across,
    "campaign": _campaigns,
}
"""What is held out in turn, of several keys."""


def _alike(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that differ in their hardware, which is listed, and harness alone.

    Of several harnesses on one piece of hardware, the one with most rows.
    """
    found: dict[tuple[str, ...], dict[str, Group]] = {}
    for group in sorted(groups, key=lambda group: len(group.rows)):
        key = group.key
        if not group.hardware.is_fallback:
            same = (key.family, key.op, key.dtype, key.measured, key.source)
            found.setdefault(same, {})[key.hardware] = group
    return [[*members.values()] for members in found.values() if len(members) > 1]


def _measured_twice(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that differ in their harness alone."""
    found: list[list[Group]] = []
    for group in groups:
        for members in found:
            if are_alike(group.key, members[0].key):
                members.append(group)
                break
        else:
            found.append([group])
    return [members for members in found if len(members) > 1]


def _row(group: Group, score: Scores, reported: dict[str, Any]) -> dict[str, Any]:
    return asdict(group.key) | asdict(score) | reported
