"""From measurements to models: one for each key, and one for hardware not measured."""

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

from .groups import LEAST_ROWS, groups_of, pooled
from .harnesses import harness_errors
from .measurements import read_measurements
from .model import Model
from .predictor import fit_pooled, fit_predictor
from .store import save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .groups import Group
    from .measurements import Measurements


@dataclass(frozen=True)
class Trained:
    """What a training made, and what it could not."""

    paths: tuple[Path, ...]
    models: tuple[Model, ...]
    too_few: tuple[str, ...]
    """Keys with fewer rows than a model needs."""
    measurements: Measurements


def train(
    paths: Sequence[str | Path],
    folder: str | Path,
    tell: Callable[[str], None] = lambda _line: None,
) -> Trained:
    """Train a model for each key of measurements, and write them into a folder.

    Raises `MeasurementError` for files that cannot be read, and `KernelModelError`
    where the folder cannot be written, or no key has enough rows.
    """
    measurements = read_measurements(paths)
    groups = groups_of(measurements.frame)
    enough = [group for group in groups if len(group.rows) >= LEAST_ROWS]
    if not enough:
        most = max(len(group.rows) for group in groups)
        raise KernelModelError(
            f"no kernel was measured at {LEAST_ROWS} or more shapes (at most {most}); "
            "measure more with `tracedb microbench`"
        )
    folder = Path(folder)
    make_folder(folder, KernelModelError)
    models, written = [], []
    for model in _models(enough, measurements, tell):
        models.append(model)
        written.append(save(model, folder))
    too_few = tuple(g.key.name for g in groups if len(g.rows) < LEAST_ROWS)
    return Trained(tuple(written), tuple(models), too_few, measurements)


def _models(
    groups: Sequence[Group], measurements: Measurements, tell: Callable[[str], None]
) -> Iterator[Model]:
    others = pooled(groups)
    predictors = {}
    for number, group in enumerate(groups, 1):
        tell(f"[{number}/{len(groups) + len(others)}] {group.key.name}")
        predictors[group.key] = fit_predictor(group.rows)
    errors = harness_errors(groups, predictors)
    for group in groups:
        yield Model(
            group.key,
            group.hardware.figures,
            not group.hardware.is_fallback,
            predictors[group.key],
            errors[group.key.family],
            _provenance([group], measurements),
        )
    for number, (key, members) in enumerate(others.items(), len(groups) + 1):
        tell(f"[{number}/{len(groups) + len(others)}] {key.name}")
        yield Model(
            key,
            {},
            is_listed=True,
            predictor=fit_pooled([member.rows for member in members]),
            harness_error=errors[key.family],
            provenance=_provenance(members, measurements),
        )


def _provenance(groups: Sequence[Group], measurements: Measurements) -> dict[str, Any]:
    import sklearn

    frame = pl.concat([group.frame for group in groups])
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
        "hardware": sorted({group.key.hardware for group in groups}),
        "repeat_noise_share": _noise(frame),
    }


def _noise(frame: pl.DataFrame) -> float | None:
    """[1] Half the band of the repeats, relative to their median; NULL if unknown."""
    widths = ((frame["high_ns"] - frame["low_ns"]) / frame["time_ns"] / 2).drop_nulls()
    return float(np.median(widths.to_numpy())) if len(widths) else None
