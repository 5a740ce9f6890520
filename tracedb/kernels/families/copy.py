"""Copies that change the layout: `batch` matrices of `rows` x `width`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import rows
from .family import Family
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Alignment of both dimensions, and matrices for each multiprocessor."""
    batch = shapes["batch"]
    return {
        "log_elements": np.log(batch * rows.elements(shapes)),
        "log_batch_per_sm": np.log(batch / hardware["sm_count"]),
        "alignment_rows": alignment(shapes["rows"]),
        "alignment_width": alignment(shapes["width"]),
    }


COPY = Family(
    name="copy",
    columns=("batch", "rows", "width"),
    relation="prediction.op_copy",
    features=features,
    optional=("batch",),
    group=("rows", "width"),
    ops_alike=True,
)
