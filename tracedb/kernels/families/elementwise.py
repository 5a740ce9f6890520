"""Ops that treat each element alone: arithmetic, activations, casts, dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracedb.kernels.relations import element_flops

from .family import Family
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes

OPTIONAL = {"inputs": 1, "outputs": 1, "width": np.nan}
"""The width is that of a row, of ops whose kernels go row by row (`silu_mul`)."""


def flops(shapes: Shapes) -> Floats:
    """[FLOP] Per element of the output, by op."""
    return shapes["elements"] * element_flops(shapes.op)


def read_bytes(shapes: Shapes) -> Floats:
    """[B] Every input, as large as the output."""
    return shapes["elements"] * shapes.known("inputs", 1) * shapes.element_bytes


def written_bytes(shapes: Shapes) -> Floats:
    """[B] Every output; that of dropout with a mask of one byte an element."""
    outputs = shapes.known("outputs", 1)
    is_dropout = shapes.op == "native_dropout"
    masks = is_dropout * (outputs - 1)
    each = (outputs - masks) * shapes.element_bytes + masks
    return np.asarray(shapes["elements"] * each)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Alignment, on which vector loads depend."""
    del hardware
    return {"alignment_elements": alignment(shapes["elements"])}


ELEMENTWISE = Family(
    name="elementwise",
    columns=("elements", "inputs", "outputs", "width"),
    flops=flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    features=features,
    optional=OPTIONAL,
    op_classes={"sub": "add", "mul": "add", "rsub": "add", "threshold_backward": "add"},
    ops_alike=True,
)
