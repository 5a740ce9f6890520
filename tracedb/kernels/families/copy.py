"""Copies that change the layout: `batch` matrices of `rows` x `width`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import rows
from .family import Family, no_flops
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def tensor_bytes(shapes: Shapes) -> Floats:
    """[B] Of all matrices, once."""
    return shapes.known("batch", 1) * rows.tensor_bytes(shapes)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Alignment of both dimensions, and matrices for each multiprocessor."""
    batch = shapes.known("batch", 1)
    return {
        "log_elements": np.log(batch * rows.elements(shapes)),
        "log_batch_per_sm": np.log(batch / hardware["sm_count"]),
        "alignment_rows": alignment(shapes["rows"]),
        "alignment_width": alignment(shapes["width"]),
    }


COPY = Family(
    name="copy",
    columns=("batch", "rows", "width"),
    flops=no_flops,
    read_bytes=tensor_bytes,
    written_bytes=tensor_bytes,
    features=features,
    optional={"batch": 1},
    group=("rows", "width"),
    ops_alike=True,
)
