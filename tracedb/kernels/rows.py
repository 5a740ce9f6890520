"""Measured rows that one model is fitted to, with their work and features' sources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from .families import FAMILIES, Shapes
from .features import own_features, sizes_of
from .work import Work, shapes_of, work_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    from .families import Family, Floats, Hardware
    from .work import Op

    Chosen = NDArray[np.int64] | NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """Rows of one family and op on one or more pieces of hardware."""

    family: Family
    shapes: Shapes
    work: Work
    figures: Mapping[str, Floats]
    """Figures that the hardware of all rows has, by their column."""
    time_ns: Floats
    is_listed: bool
    """Whether `prediction.hardware` lists the hardware of all rows."""

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.time_ns)

    def take(self, chosen: Chosen) -> Rows:
        """Some of the rows."""
        figures = {name: values[chosen] for name, values in self.figures.items()}
        return replace(
            self,
            shapes=self.shapes.take(chosen),
            work=self.work.take(chosen),
            figures=figures,
            time_ns=self.time_ns[chosen],
        )

    @cached_property
    def logs(self) -> dict[str, Floats]:
        """The features that say whether a row lies in the range of others."""
        return sizes_of(self)

    @cached_property
    def own_features(self) -> dict[str, NDArray[np.float32]]:
        """The features of the family."""
        return own_features(self)

    @property
    def size(self) -> Floats:
        """By what rows are large: FLOPs of products, else bytes."""
        return self.work.flops if self.family.uses_matrix_units else self.work.bytes

    @property
    def is_linked(self) -> bool:
        """Whether they move bytes over a link, past the memory of their hardware."""
        return len(self) > 0 and str(self.shapes.op[0]) in self.family.bandwidths

    @property
    def least_ns(self) -> Floats:
        """[ns] No kernel is shorter: by the data sheet, where there is one.

        Arithmetic at the peak, and memory touched at the bandwidth. What goes over a
        link is not bounded: which one it is, a trace does not say.
        """
        if not self.is_listed or self.is_linked:
            return np.zeros(len(self))
        return self.work.least_ns(self.family.arithmetic_saved)

    def codes(self, columns: Sequence[str]) -> NDArray[np.uint64]:
        """A number for each combination of sizes; NaN is a size like any other."""
        code = np.zeros(len(self), np.uint64)
        for name in columns:
            size = np.nan_to_num(self.shapes[name], nan=-1)
            code = (code ^ size.astype(np.int64).view(np.uint64)) * np.uint64(
                0x9E3779B97F4A7C15
            )
            code ^= code >> np.uint64(29)
        return code


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several parts of one family, one part after another."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return replace(
        first,
        shapes=Shapes(
            {
                n: np.concatenate([p.shapes[n] for p in parts])
                for n in first.shapes.sizes
            },
            np.concatenate([part.shapes.op for part in parts]),
            np.concatenate([part.shapes.unit for part in parts]),
            np.concatenate([part.shapes.element_bytes for part in parts]),
        ),
        work=reduce(Work.followed_by, (part.work for part in parts)),
        figures={
            n: np.concatenate([part.figures[n] for part in parts])
            for n in first.figures
            if all(n in part.figures for part in parts)
        },
        time_ns=np.concatenate([part.time_ns for part in parts]),
        is_listed=all(part.is_listed for part in parts),
    )


def rows_of(
    frame: pl.DataFrame, op: Op, hardware: Hardware, *, is_listed: bool
) -> Rows:
    """The rows of a frame, all of one op; without a column of times, they are NaN."""
    rows = Question.of(frame, op).on(hardware, is_listed=is_listed)
    if "time_ns" not in frame.columns:
        return rows
    return replace(rows, time_ns=frame["time_ns"].to_numpy())


@dataclass(frozen=True)
class Question:
    """Shapes of one op, to be predicted on one or more pieces of hardware."""

    op: Op
    shapes: Shapes
    _rows: dict[tuple[object, ...], Rows] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: pl.DataFrame, op: Op) -> Question:
        """Of the rows of a frame, all of one op."""
        return cls(op, shapes_of(FAMILIES[op.family], frame, op))

    def on(self, hardware: Hardware, *, is_listed: bool) -> Rows:
        """The rows on some hardware, without times; the same for equal hardware."""
        key = (is_listed, *sorted(hardware.items()))
        if key not in self._rows:
            self._rows[key] = self._made(hardware, is_listed=is_listed)
        return self._rows[key]

    def _made(self, hardware: Hardware, *, is_listed: bool) -> Rows:
        family, count = FAMILIES[self.op.family], len(self.shapes)
        return Rows(
            family,
            self.shapes,
            work_of(family, self.shapes, hardware, self.op),
            {name: np.broadcast_to(value, count) for name, value in hardware.items()},
            np.broadcast_to(np.nan, count),
            is_listed,
        )
