"""The contract of a family: ops whose time is a matter of the same sizes.

What work follows from the sizes is said in SQL, by the family's relation. Features are
made row by row: arrays in, arrays of the same length out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Hardware = Mapping[str, float]
"""Figures of one piece of hardware, by their column of `prediction.hardware`."""
Figures = Mapping[str, Floats]
"""The same for each row."""


@dataclass(frozen=True)
class Shapes:
    """Rows of one family: their sizes (NaN where unknown), ops, and elements."""

    sizes: Mapping[str, Floats]
    """What the family's relation has of each row, FLOPs and bytes included."""
    op: NDArray[np.str_]
    unit: NDArray[np.str_]
    """What multiplies matrices of their type (`prediction.arithmetic_unit`)."""
    element_bytes: Floats

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.op)

    def __getitem__(self, name: str) -> Floats:
        """One size of each row."""
        return self.sizes[name]

    @property
    def moved_bytes(self) -> Floats:
        """[B] Read and written, each access counted."""
        return self["read_bytes"] + self["written_bytes"]

    @property
    def footprint_bytes(self) -> Floats:
        """[B] Distinct memory that is touched; else all that is read or written."""
        found = self.sizes.get("footprint_bytes")
        return self.moved_bytes if found is None else found

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Shapes:
        """Some of the rows."""
        sizes = {name: size[chosen] for name, size in self.sizes.items()}
        op, unit = self.op[chosen], self.unit[chosen]
        return Shapes(sizes, op, unit, self.element_bytes[chosen])


def no_features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Tell nothing beyond sizes and work."""
    del shapes, hardware
    return {}


@dataclass(frozen=True)
class Family:
    """A family of ops: which sizes it has, and what a model learns from."""

    name: str
    columns: tuple[str, ...]
    """The sizes that a row has, as measurements and `prediction.kernel_problem` do."""
    relation: str
    """Where sizes become FLOPs and bytes, in its last SELECT (`work.py`)."""
    features: Callable[[Shapes, Figures], dict[str, Floats]] = no_features
    """What a model may learn from beside sizes and work."""
    optional: tuple[str, ...] = ()
    """Sizes that a row may lack; the relation says what they are then, if anything."""
    uses_matrix_units: bool = False
    arithmetic_saved: float | None = None
    """How many times less arithmetic than the sums say an algorithm may do; None where
    FLOPs are nominal counts of instructions, which bound nothing."""
    is_typed: bool = True
    """Whether the type of elements matters; sizes of untyped ops are in bytes."""
    ops_alike: bool = False
    """Whether a model of one op says something about another: memory bounds both."""
    bandwidths: Mapping[str, str] = field(default_factory=dict)
    """Ops that are bound by another link than memory: its column of hardware."""
    group: tuple[str, ...] = ()
    """Sizes that belong together: shapes are held out by them."""
    op_classes: Mapping[str, str] = field(default_factory=dict)
    """Ops that take the time of another one: a model of either serves both."""
    implementations: tuple[str, ...] = ()
    """Libraries of kernels whose times differ, as `prediction.kernel_problem` names
    them; so do the names of software that uses them."""

    @property
    def required(self) -> tuple[str, ...]:
        """Sizes without which nothing can be said."""
        return tuple(name for name in self.columns if name not in self.optional)

    def op_class(self, op: str) -> str:
        """The op whose models serve this one."""
        return self.op_classes.get(op, op)

    def implementation(self, software: str) -> str:
        """Which library of kernels some software uses; empty if that is unknown."""
        return next((name for name in self.implementations if name in software), "")
