"""What ops over rows share: `rows` rows of `width` elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def elements(shapes: Shapes) -> Floats:
    """Elements of all rows."""
    return shapes["rows"] * shapes["width"]


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
