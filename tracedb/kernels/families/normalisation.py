"""Layer, RMS and batch norm, forward and backward.

A batch norm's rows are channels; their statistics take a pass of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import rows
from .family import Family

if TYPE_CHECKING:
    from .family import Floats, Shapes

# Times that all rows are read: the input, backward also the gradient.
_PASSES = {
    "layer_norm_backward": 2.0,
    "rms_norm_backward": 2.0,
    "batch_norm": 2.0,
    "batch_norm_backward": 4.0,
}


def read_bytes(shapes: Shapes) -> Floats:
    """[B] All rows, as often as they are read."""
    return shapes.by_op(_PASSES, 1) * rows.tensor_bytes(shapes)


NORMALISATION = Family(
    name="normalisation",
    columns=("rows", "width"),
    flops=rows.flops,
    read_bytes=read_bytes,
    written_bytes=rows.tensor_bytes,
    features=rows.features,
    group=("width",),
    ops_alike=True,
)
