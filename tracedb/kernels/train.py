"""From measurements to models: one for each key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import tracedb
from tracedb.errors import KernelModelError
from tracedb.outputs import make_folder

from .bands import NO_ERROR
from .groups import LEAST_ROWS, OF_KEY, groups_of
from .harnesses import compared, harness_errors
from .held_out import HeldOut, fewer, transfer_of
from .measurements import read_measurements
from .model import Model
from .pooled import fit_pooled, pools_of
from .predictor import fit_predictor
from .public import LICENCES
from .residual import FORESTS
from .store import save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .groups import Group
    from .measurements import Measurements


_DOUBTFUL = 1.0
"""Mean error of held-out rows from which a model tells next to nothing."""
_WRONG_UNIT = 0.98
"""Error of the data sheet from which times are 50 times as long as it says; of all
measurements that tracedb ships models of, the most is 17 times."""
_TOO_SHORT = 19.0
"""Error of the data sheet from which times are a twentieth of what it says; of all that
tracedb ships models of, caches make the shortest a third."""
_MOST_KEYS = 2_000
"""Models of one training: all public data have 156."""
_APART = 3.0
"""Repeated measurements of a shape that differ by so many times contradict each
other."""
_OFTEN = 0.1
"""Share of the repeated shapes from which contradictions are reported."""


@dataclass(frozen=True)
class Trained:
    """What a training made, and what it could not."""

    paths: tuple[Path, ...]
    models: tuple[Model, ...]
    too_few: tuple[str, ...]
    """Keys with fewer rows than a model needs."""
    measurements: Measurements
    contradictions: tuple[str, ...] = ()
    """Keys whose repeated measurements contradict each other."""

    @property
    def doubtful(self) -> Iterator[str]:
        """Models of strange times, or worse than the data sheet's roofline.

        Held-out rows tell, and repeated measurements.
        """
        yield from self.contradictions
        for model in self.models:
            for distance, score in model.predictor.scores.items():
                plain = model.predictor.datasheet_scores[distance]
                unit = _wrong_unit(plain.gmae_share)
                if unit:
                    yield (
                        f"{model.key.name}: takes {unit} by the data sheet; check that "
                        "its times are in ns"
                    )
                    break
                if score.mape_share > plain.mape_share or score.mape_share > _DOUBTFUL:
                    yield (
                        f"{model.key.name}: off by {score.mape_share:.0%} of held-out "
                        f"rows ({distance}), the data sheet by {plain.mape_share:.0%}; "
                        "measure more shapes, or leave this model out"
                    )
                    break


def _wrong_unit(error: float) -> str:
    """How long kernels take, of which the data sheet is so far off; empty if near."""
    if _WRONG_UNIT < error < 1:
        return f"{1 / (1 - error):,.0f} times as long as"
    if error > _TOO_SHORT:
        return f"1/{1 + error:,.0f} as long as"
    return ""


def train(
    paths: Sequence[str | Path],
    folder: str | Path,
    tell: Callable[[str], None] = lambda _line: None,
    forests: Sequence[str] = FORESTS,
) -> Trained:
    """Train a model for each key of measurements, and write them into a folder.

    `forests` are the kinds that models may have, of which held-out rows choose.

    Raises `MeasurementError` for files that cannot be read, and `KernelModelError`
    where the folder cannot be written, or no key has enough rows.
    """
    measurements = read_measurements(paths)
    _refuse_many(measurements.frame, paths)
    groups = groups_of(measurements.frame)
    enough = [group for group in groups if len(group.rows) >= LEAST_ROWS]
    if not enough:
        most = max(len(group.rows) for group in groups)
        raise KernelModelError(
            f"no kernel was measured with {LEAST_ROWS} or more shapes (at most "
            f"{most}); measure more with `tracedb microbench`"
        )
    folder = Path(folder)
    make_folder(folder, KernelModelError)
    models, written = [], []
    for model in models_of(enough, measurements, tell, forests):
        models.append(model)
        written.append(save(model, folder))
    too_few = tuple(g.key.name for g in groups if len(g.rows) < LEAST_ROWS)
    contradictions = tuple(filter(None, map(_contradiction, enough)))
    return Trained(tuple(written), tuple(models), too_few, measurements, contradictions)


def _refuse_many(frame: pl.DataFrame, paths: Sequence[str | Path]) -> None:
    """Refuse rows of so many keys that their models would take hours."""
    count = frame.group_by(OF_KEY).len().filter(pl.col("len") >= LEAST_ROWS).height
    if count > _MOST_KEYS:
        raise KernelModelError(
            f"{', '.join(map(str, paths))}: {count:,} different combinations of "
            f"{', '.join(OF_KEY)}, each of which is a model; give at most "
            f"{_MOST_KEYS:,} (is one of these columns different in every row?)"
        )


def _contradiction(group: Group) -> str:
    """What repeated measurements of one shape differ by; empty if by little."""
    times = pl.col("time_ns")
    apart = (
        group.frame.group_by(group.rows.family.columns)
        .agg((times.max() / times.min()).alias("apart"), pl.len())
        .filter(pl.col("len") > 1)["apart"]
    )
    count = int((apart > _APART).sum())
    most = float(apart.to_numpy().max(initial=0))
    if count <= _OFTEN * len(apart):
        return ""
    return (
        f"{group.key.name}: {count:,} of {len(apart):,} shapes that were measured more "
        f"than once have times up to {most:,.0f} times apart; are units mixed, "
        "or several set-ups? Its times are their medians"
    )


def models_of(
    groups: Sequence[Group],
    measurements: Measurements,
    tell: Callable[[str], None],
    kinds: Sequence[str] = FORESTS,
) -> Iterator[Model]:
    """A model for each group, all of which have enough rows."""
    predictors = {}
    for number, group in enumerate(groups, 1):
        tell(f"[{number}/{len(groups)}] {group.key.name}")
        predictors[group.key] = fit_predictor(group.rows, kinds)
    errors = harness_errors(predictors, compared(groups, predictors))
    held = HeldOut(fewer(groups), predictors).held()
    for group in groups:
        yield Model(
            group.key,
            group.hardware.figures,
            not group.hardware.is_fallback,
            predictors[group.key],
            errors[group.key],
            transfer_of(group.key, held),
            _provenance([group], measurements),
        )
    for key, pool in pools_of(groups).items():
        transfer = transfer_of(key, held)
        predictor = fit_pooled(pool) if transfer.is_pooled else None
        if predictor is not None:
            tell(key.name)
            about = _provenance(pool, measurements)
            is_listed = not any(group.hardware.is_fallback for group in pool)
            yield Model(key, {}, is_listed, predictor, NO_ERROR, transfer, about)


def _provenance(groups: Sequence[Group], measurements: Measurements) -> dict[str, Any]:
    import sklearn

    frame = pl.concat([group.frame for group in groups], how="diagonal_relaxed")
    licences = dict.fromkeys(LICENCES.get(group.key.source) for group in groups)
    files = frame.group_by("file").len().sort("file").rows()
    return {
        "tracedb": tracedb.__version__,
        "scikit_learn": sklearn.__version__,
        "trained_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": [
            {"file": name, "sha256": measurements.files[name], "rows": count}
            for name, count in files
        ],
        "rows": frame.height,
        "shapes": sum(len(group.rows) for group in groups),
        "devices": sorted(frame["device"].unique()),
        "repeat_noise_share": _noise(frame),
        "licence": "; ".join(filter(None, licences)) or None,
    }


def _noise(frame: pl.DataFrame) -> float | None:
    """[1] Half the band of the repeats, relative to their median; NULL if unknown."""
    widths = ((frame["high_ns"] - frame["low_ns"]) / frame["time_ns"] / 2).drop_nulls()
    return float(np.median(widths.to_numpy())) if len(widths) else None
