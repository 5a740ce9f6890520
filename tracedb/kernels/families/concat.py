"""Tensors put together, or taken apart: `rows` rows of `width` elements in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import rows
from .family import Family

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Those of rows, and the size of one tensor."""
    found = rows.features(shapes, hardware)
    tensors = shapes["tensors"]
    found["log_width_of_tensor"] = np.log(shapes["width"] / tensors)
    return found


CONCAT = Family(
    name="concat",
    columns=("tensors", "rows", "width"),
    relation="prediction.op_concat",
    features=features,
    optional=("tensors",),
    group=("tensors", "width"),
    ops_alike=True,
)
