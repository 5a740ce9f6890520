"""The work of shapes on a piece of hardware: what the roofline and features go by."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from .dtypes import element_bytes, matrix_peak, matrix_unit, vector_peak
from .families import FAMILIES, Shapes
from .relations import counted, element_flops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .families import Family, Floats, Hardware

    Rows = NDArray[np.int64] | NDArray[np.bool_]


@dataclass(frozen=True)
class Work:
    """What each row has to do, beside what the data sheet promises."""

    flops: Floats
    bytes: Floats
    """[B] Read and written, each access counted."""
    footprint: Floats
    """[B] Distinct memory touched."""
    peak: Floats
    """[FLOP/s]"""
    bandwidth: Floats
    """[B/s] Of memory, or of the link that the op goes over."""
    l2_bytes: Floats
    l2_bandwidth: Floats
    floor_ns: Floats

    @property
    def compute_ns(self) -> Floats:
        """[ns] Arithmetic at the peak."""
        return self.flops / self.peak * 1e9

    @property
    def memory_ns(self) -> Floats:
        """[ns] All bytes at the bandwidth of memory."""
        return self.bytes / self.bandwidth * 1e9

    @property
    def cache_ns(self) -> Floats:
        """[ns] All bytes at the bandwidth of the level-2 cache."""
        return self.bytes / self.l2_bandwidth * 1e9

    @property
    def datasheet_ns(self) -> Floats:
        """[ns] The plain roofline: no kernel is shorter than the floor."""
        return np.maximum(np.maximum(self.compute_ns, self.memory_ns), self.floor_ns)

    def least_ns(self, saved: float | None) -> Floats:
        """[ns] What no kernel is below, however good it is.

        Memory that is touched comes out of the cache as long as it fits, and from twice
        that on through the memory. `saved` is how many times less arithmetic than the
        sums say an algorithm may do; without it, arithmetic does not count.
        """
        touched = np.minimum(self.footprint, self.bytes) * 1e9
        cached = np.clip(2 - touched / 1e9 / self.l2_bytes, 0, 1)
        memory = touched * (1 - cached) / self.bandwidth
        memory += touched * cached / self.l2_bandwidth
        return memory if saved is None else np.maximum(memory, self.compute_ns / saved)

    def take(self, rows: Rows) -> Work:
        """Some of the rows."""
        return Work(*(getattr(self, name)[rows] for name in _FIELDS))

    def followed_by(self, other: Work) -> Work:
        """The rows of both."""
        return Work(*(np.append(getattr(self, n), getattr(other, n)) for n in _FIELDS))


_FIELDS = tuple(field.name for field in fields(Work))
LINK = "nvlink_bytes_per_second"
"""The column of hardware with the link between devices of a node."""
_AT_LEAST_ONE = ("batch", "kv_heads", "stride", "dilation", "groups", "ranks_per_node")
"""Sizes that may be unknown, but not 0; a fill has 0 inputs."""


def is_counted(shapes: Shapes) -> NDArray[np.bool_]:
    """Which rows have FLOPs and bytes that numbers can hold."""
    work = shapes["flops"] + shapes["read_bytes"] + shapes["written_bytes"]
    found: NDArray[np.bool_] = np.isfinite(work)
    return found


def complete(family: Family, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of which every size that is needed is known, and no size too small."""
    for name in family.required:
        if name not in frame.columns:
            return frame.clear()
        frame = frame.filter(pl.col(name) >= 1)
    for name in {*family.optional}.intersection(frame.columns):
        is_enough = pl.col(name) >= (name in _AT_LEAST_ONE)
        frame = frame.filter(is_enough.fill_null(value=True))
    return frame


def absent_sizes(frame: pl.DataFrame) -> str | None:
    """In words, the sizes that a family in a frame needs, and that are no columns."""
    for name in frame["family"].unique(maintain_order=True):
        family = FAMILIES.get(name)
        absent = (
            [s for s in family.required if s not in frame.columns] if family else []
        )
        if absent:
            return f"{', '.join(absent)}, which every {name} needs"
    return None


class Op(NamedTuple):
    """What the rows of one model share."""

    family: str
    op: str
    dtype: str


def shapes_of(family: Family, frame: pl.DataFrame, op: Op) -> Shapes:
    """The rows of a frame that has some of the family's columns, with their work.

    What a size is that is not known, and FLOPs and bytes, the family's relation says.
    """
    given = frame.select(pl.selectors.numeric().cast(pl.Float64))
    return _counted(family, given, op)


def _counted(family: Family, sizes: pl.DataFrame, op: Op) -> Shapes:
    """Rows of one op, given by their sizes as floating-point numbers."""
    bytes_, unit = float(element_bytes(op.dtype)), matrix_unit(op.dtype)
    rows = counted(
        family.relation,
        sizes.with_columns(
            family=pl.lit(op.family),
            op=pl.lit(op.op),
            dtype=pl.lit(op.dtype),
            element_bytes=pl.lit(bytes_),
            element_flops=pl.lit(element_flops(op.op)),
            unit=pl.lit(unit),
        ),
    )
    numbers = rows.select(pl.selectors.numeric().cast(pl.Float64).fill_null(np.nan))
    found = {name: column.to_numpy() for name, column in numbers.to_dict().items()}
    unknown = np.full(sizes.height, np.nan)
    for name in family.columns:
        if name not in found:
            column = sizes.get_column(name, default=None)
            found[name] = unknown if column is None else column.to_numpy()
    same = (np.full(sizes.height, value) for value in (op.op, unit, bytes_))
    return Shapes(found, *same)


def linked_devices(hardware: Hardware) -> float:
    """How many devices its link joins: any number, unless it is a bridge."""
    return hardware.get("linked_devices", np.inf)


def work_of(family: Family, shapes: Shapes, hardware: Hardware, op: Op) -> Work:
    """The work of shapes of one op."""
    link = family.bandwidths.get(op.op)
    bandwidth: float | Floats = hardware[link or "dram_bytes_per_second"]
    if link == LINK and "ranks_per_node" in family.columns:
        bandwidth = np.where(
            shapes["ranks_per_node"] > linked_devices(hardware),
            hardware["pcie_bytes_per_second"],
            bandwidth,
        )
    of_type = matrix_peak if family.uses_matrix_units else vector_peak
    peak = of_type(hardware, op.dtype)

    def each(figure: float | Floats) -> Floats:
        return np.broadcast_to(figure, len(shapes))

    return Work(
        flops=shapes["flops"],
        bytes=shapes.moved_bytes,
        footprint=shapes.footprint_bytes,
        peak=each(peak),
        bandwidth=each(bandwidth),
        l2_bytes=each(hardware["l2_bytes"]),
        l2_bandwidth=each(bandwidth if link else hardware["l2_bytes_per_second"]),
        floor_ns=each(hardware["floor_ns"]),
    )
