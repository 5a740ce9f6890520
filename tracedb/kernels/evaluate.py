"""How well models predict what they have not seen, beside simpler ways."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracedb.errors import MeasurementError

from .baselines import BASELINES
from .families import FAMILIES
from .groups import LEAST_ROWS, groups_of, pooled
from .measurements import read_measurements
from .predictor import fit_pooled, fit_predictor
from .scores import Scores, scores_of
from .splits import SEED, SPLITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .groups import Group
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

    Splits are `random`, `shape`, `largest` (`splits.py`) and `hardware`: all rows of
    one piece of hardware, predicted by a model of the others. Returns a row for each
    key, split and predictor. Raises `MeasurementError` where there is nothing to split.
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
    """Those within the key; of several keys, each is held out in turn."""

    @property
    def name(self) -> str:
        """What it is of, in words."""
        first, *others = (group.key for group in self.groups)
        words = ", ".join(sorted({first.hardware, *(key.hardware for key in others)}))
        return f"{first.name}, by turns of {words}" if others else first.name

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
        if self.splits:
            return _within(self.groups[0], self.splits)
        return _across(self.groups)


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
    wanted = splits or [*SPLITS, "hardware"]
    within = tuple(name for name in wanted if name in SPLITS)
    parts = [Part((group,), within) for group in groups if within]
    if "hardware" in wanted:
        parts += [Part(tuple(members), ()) for members in _alike(groups)]
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
    """Scores of models for hardware that was not measured, one left out at a time."""
    for group in members:
        others = [other.rows for other in members if other is not group]
        predicted = fit_pooled(others).predict(group.rows)
        band = (predicted.low_ns, predicted.high_ns)
        score = scores_of(predicted.ns, group.rows.time_ns, band)
        counts = {"split": "hardware", "trained_rows": sum(map(len, others))}
        yield _row(group, score, counts | {"predictor": "model"})
        score = scores_of(group.rows.work.datasheet_ns, group.rows.time_ns)
        yield _row(group, score, counts | {"predictor": "datasheet"})


def _alike(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that differ in their hardware, which is listed, and harness alone."""
    return [members for members in pooled(groups).values() if len(members) > 1]


def _row(group: Group, score: Scores, reported: dict[str, Any]) -> dict[str, Any]:
    return asdict(group.key) | asdict(score) | reported
