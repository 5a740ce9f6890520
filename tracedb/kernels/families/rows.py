"""What ops over rows share: `rows` rows of `width` elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracedb.kernels.relations import element_flops

from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def elements(shapes: Shapes) -> Floats:
    """Elements of all rows."""
    return shapes["rows"] * shapes["width"]


def flops(shapes: Shapes) -> Floats:
    """[FLOP] Per element that is read, by op."""
    return elements(shapes) * element_flops(shapes.op)


def tensor_bytes(shapes: Shapes) -> Floats:
    """[B] Of all rows, once."""
    return elements(shapes) * shapes.element_bytes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Rows for each multiprocessor, and the alignment of a row."""
    rows = shapes["rows"] / hardware["sm_count"]
    return {
        "log_elements": np.log(elements(shapes)),
        "log_rows_per_sm": np.log(rows),
        "wave_fill": rows / np.ceil(rows),
        "alignment_width": alignment(shapes["width"]),
        "alignment_rows": alignment(shapes["rows"]),
    }
