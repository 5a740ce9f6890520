"""The contract of a family: ops whose time is a matter of the same sizes.

Everything counts row by row: arrays in, arrays of the same length out.
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
    """Rows of one family: their sizes (NaN where unknown), ops, bytes an element."""

    sizes: Mapping[str, Floats]
    op: NDArray[np.str_]
    element_bytes: Floats

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.op)

    def __getitem__(self, name: str) -> Floats:
        """One size of each row."""
        return self.sizes[name]

    def known(self, name: str, default: float | Floats) -> Floats:
        """One size of each row, or what it usually is where that is unknown."""
        size = self.sizes.get(name)
        if size is None:
            return np.broadcast_to(np.asarray(default, dtype=float), (len(self),))
        return np.where(np.isnan(size), default, size)

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Shapes:
        """Some of the rows."""
        sizes = {name: size[chosen] for name, size in self.sizes.items()}
        return Shapes(sizes, self.op[chosen], self.element_bytes[chosen])

    def by_op(self, values: Mapping[str, float], default: float) -> Floats:
        """A number that depends on the op, row by row."""
        names, codes = np.unique(self.op, return_inverse=True)
        found = [values.get(str(name), default) for name in names]
        return np.array(found, dtype=float)[codes]


def no_flops(shapes: Shapes) -> Floats:
    """Count no arithmetic: data are moved only."""
    return np.zeros(len(shapes))


def no_features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Tell nothing beyond sizes and work."""
    del shapes, hardware
    return {}


@dataclass(frozen=True)
class Family:
    """A family of ops: which sizes it has, and what work follows from them."""

    name: str
    columns: tuple[str, ...]
    """The sizes that a row has, as measurements and `prediction.kernel_problem` do."""
    flops: Callable[[Shapes], Floats]
    """[FLOP] Arithmetic; a multiplication with its addition is two."""
    read_bytes: Callable[[Shapes], Floats]
    """[B] What is asked of memory, each access counted."""
    written_bytes: Callable[[Shapes], Floats]
    """[B] What is written."""
    footprint_bytes: Callable[[Shapes], Floats] | None = None
    """[B] Distinct memory that is touched; without it, all that is read or written."""
    features: Callable[[Shapes, Figures], dict[str, Floats]] = no_features
    """What a model may learn from beside sizes and work."""
    optional: Mapping[str, float | Callable[[Shapes], Floats]] = field(
        default_factory=dict
    )
    """Sizes that a row may lack, with what they are then; NaN says nothing of them."""
    uses_matrix_units: bool = False
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

    @property
    def required(self) -> tuple[str, ...]:
        """Sizes without which nothing can be said."""
        return tuple(name for name in self.columns if name not in self.optional)

    def size(self, shapes: Shapes, name: str) -> Floats:
        """One size of each row, or what it usually is where that is unknown."""
        usual = self.optional.get(name, np.nan)
        return shapes.known(name, usual(shapes) if callable(usual) else usual)

    def footprint(self, shapes: Shapes) -> Floats:
        """[B] Distinct memory that is touched."""
        if self.footprint_bytes is not None:
            return self.footprint_bytes(shapes)
        return self.read_bytes(shapes) + self.written_bytes(shapes)

    def op_class(self, op: str) -> str:
        """The op whose models serve this one."""
        return self.op_classes.get(op, op)
