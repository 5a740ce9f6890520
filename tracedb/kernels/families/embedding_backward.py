"""Gradients of single-row lookups, added into the table's gradient, which is dense.

The whole op also clears that gradient, where the table's size is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import embedding
from .family import Family

if TYPE_CHECKING:
    from .family import Floats, Shapes


def flops(shapes: Shapes) -> Floats:
    """[FLOP] One addition for each element of a gradient."""
    return shapes["rows"] * shapes["width"]


def written_bytes(shapes: Shapes) -> Floats:
    """[B] All rows of the table once, and the distinct rows that have a gradient."""
    table_rows = shapes.known("table_rows", np.inf)
    cleared = np.where(np.isfinite(table_rows), table_rows, 0)
    rows = embedding.distinct(shapes) + cleared
    return rows * shapes["width"] * shapes.element_bytes


EMBEDDING_BACKWARD = Family(
    name="embedding_backward",
    columns=("rows", "width", "table_rows"),
    flops=flops,
    read_bytes=embedding.read_bytes,
    written_bytes=written_bytes,
    features=embedding.features,
    optional={"table_rows": np.inf},
    group=("width",),
    op_classes={"index_select": "embedding"},
)
