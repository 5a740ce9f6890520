"""Softmax of rows and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import rows
from .family import Family

if TYPE_CHECKING:
    from .family import Floats, Shapes

# Backward reads the result and its gradient.
_INPUTS = {"softmax_backward": 2.0, "log_softmax_backward": 2.0}


def read_bytes(shapes: Shapes) -> Floats:
    """[B] All rows; backward those of two tensors."""
    return shapes.by_op(_INPUTS, 1) * rows.tensor_bytes(shapes)


SOFTMAX = Family(
    name="softmax",
    columns=("rows", "width"),
    flops=rows.flops,
    read_bytes=read_bytes,
    written_bytes=rows.tensor_bytes,
    features=rows.features,
    group=("width",),
    op_classes={
        "log_softmax": "softmax",
        "log_softmax_backward": "softmax_backward",
    },
    ops_alike=True,
)
