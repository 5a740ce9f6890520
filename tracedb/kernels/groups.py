"""The measured shapes of each key, which models are trained and scored on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from .families import FAMILIES
from .hardware import hardware_table
from .model import Key
from .rows import rows_of
from .work import Op, complete, work_of

if TYPE_CHECKING:
    from .hardware import HardwareRow
    from .rows import Rows

LEAST_ROWS = 8
"""Fewer shapes do not even tell the roofline's constants."""
OF_KEY = ("device", "family", "op", "dtype", "measured", "source", "software")
"""Rows that are alike in these columns are one key's."""


@dataclass(frozen=True)
class Group:
    """The measured shapes of one key."""

    key: Key
    hardware: HardwareRow
    rows: Rows
    frame: pl.DataFrame
    """The measurements, before equal shapes became one."""

    def rows_of(self, rows: Rows) -> Rows:
        """Rows of the same op, as they would be on this group's hardware."""
        what = Op(self.key.family, self.key.op, self.key.dtype)
        figures = self.hardware.figures
        return replace(
            rows,
            work=work_of(rows.family, rows.shapes, figures, what),
            figures={n: np.full(len(rows), v) for n, v in figures.items()},
        )

    def is_alike_on_other_hardware(self, other: Group) -> bool:
        """Whether another group differs in its hardware, of the same vendor, alone."""
        same = ("family", "op", "dtype", "measured", "source")
        return (
            self.key.hardware != other.key.hardware
            and all(getattr(self.key, n) == getattr(other.key, n) for n in same)
            and self.hardware.is_related(other.hardware)
        )


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
    keyed = found.group_by(OF_KEY, maintain_order=True)
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
