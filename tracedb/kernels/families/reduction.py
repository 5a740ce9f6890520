"""Sums, means and losses: each of `rows` rows becomes one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import rows
from .family import Family

if TYPE_CHECKING:
    from .family import Floats, Shapes

# Losses compare two tensors.
_INPUTS = dict.fromkeys(
    (
        *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"),
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "dot"),
    ),
    2.0,
)


def read_bytes(shapes: Shapes) -> Floats:
    """[B] All rows; of losses those of both tensors."""
    return shapes.by_op(_INPUTS, 1) * rows.tensor_bytes(shapes)


def written_bytes(shapes: Shapes) -> Floats:
    """[B] A number a row."""
    return shapes["rows"] * shapes.element_bytes


REDUCTION = Family(
    name="reduction",
    columns=("rows", "width"),
    flops=rows.flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    features=rows.features,
    group=("width",),
    op_classes={"mean": "sum"},
    ops_alike=True,
)
