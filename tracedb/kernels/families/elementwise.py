"""Ops that treat each element alone: arithmetic, activations, casts, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .family import Family
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Alignment, on which vector loads depend."""
    del hardware
    return {"alignment_elements": alignment(shapes["elements"])}


ELEMENTWISE = Family(
    name="elementwise",
    # The width is that of a row, of ops whose kernels go row by row (`silu_mul`).
    columns=("elements", "inputs", "outputs", "width"),
    relation="prediction.op_elementwise",
    features=features,
    optional=("inputs", "outputs", "width"),
    op_classes={"sub": "add", "mul": "add", "rsub": "add", "threshold_backward": "add"},
    ops_alike=True,
)
