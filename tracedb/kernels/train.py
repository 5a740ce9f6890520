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

from .families import FAMILIES
from .hardware import hardware_table
from .measurements import read_measurements
from .model import ANY, Key, Model
from .predictor import fit_pooled, fit_predictor
from .rows import rows_of
from .store import save
from .work import Op, complete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .hardware import HardwareRow
    from .measurements import Measurements
    from .rows import Rows

LEAST_ROWS = 8
"""Fewer shapes do not even tell the roofline's constants."""
_OF_KEY = ("device", "family", "op", "dtype", "measured", "source", "software")


@dataclass(frozen=True)
class Group:
    """The measured shapes of one key."""

    key: Key
    hardware: HardwareRow
    rows: Rows
    frame: pl.DataFrame
    """The measurements, before equal shapes became one."""


def groups_of(frame: pl.DataFrame) -> list[Group]:
    """Measurements by key; equal shapes become one, with the median of their times."""
    table = hardware_table()
    names = {device: table.find(device) for device in frame["device"].unique()}
    found = frame.with_columns(
        pl.col("device").replace({device: row.name for device, row in names.items()}),
        pl.when(pl.col("family").is_in(_untyped()))
        .then(pl.lit("bytes"))
        .otherwise("dtype")
        .alias("dtype"),
    )
    keyed = found.group_by(_OF_KEY, maintain_order=True)
    rows = {row.name: row for row in names.values()}
    return [_group(Key(*map(str, key)), part, rows[str(key[0])]) for key, part in keyed]


def _untyped() -> list[str]:
    return [family.name for family in FAMILIES.values() if not family.is_typed]


def _group(key: Key, frame: pl.DataFrame, hardware: HardwareRow) -> Group:
    family = FAMILIES[key.family]
    frame = complete(family, frame)
    shapes = frame.group_by(family.columns, maintain_order=True).agg(
        pl.col("time_ns").median()
    )
    is_listed = not hardware.is_fallback
    what = Op(key.family, key.op, key.dtype)
    rows = rows_of(shapes, what, hardware.figures, is_listed=is_listed)
    return Group(key, hardware, rows, frame)


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
    for number, group in enumerate(groups, 1):
        tell(f"[{number}/{len(groups) + len(others)}] {group.key.name}")
        yield Model(
            group.key,
            group.hardware.figures,
            not group.hardware.is_fallback,
            fit_predictor(group.rows),
            _provenance([group], measurements),
        )
    for number, (key, members) in enumerate(others.items(), len(groups) + 1):
        tell(f"[{number}/{len(groups) + len(others)}] {key.name}")
        yield Model(
            key,
            {},
            is_listed=True,
            predictor=fit_pooled([member.rows for member in members]),
            provenance=_provenance(members, measurements),
        )


def pooled(groups: Sequence[Group]) -> dict[Key, list[Group]]:
    """Groups of listed hardware that a model for other hardware can learn from.

    Of several harnesses on one piece of hardware, the one with most rows.
    """
    found: dict[Key, dict[str, Group]] = {}
    for group in sorted(groups, key=lambda group: len(group.rows)):
        key = group.key
        if not group.hardware.is_fallback:
            anywhere = Key(
                ANY, key.family, key.op, key.dtype, key.measured, key.source, ""
            )
            found.setdefault(anywhere, {})[key.hardware] = group
    return {key: list(members.values()) for key, members in found.items()}


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
