"""Lookups of single rows of one table: `rows` rows of `width` elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .family import Family
from .lookup import cache_features
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Reuse of rows and what caches keep."""
    row_bytes = shapes["width"] * shapes.element_bytes
    found = cache_features(shapes["rows"], shapes["distinct_rows"], row_bytes, hardware)
    found["alignment_width"] = alignment(shapes["width"])
    return found


EMBEDDING = Family(
    name="embedding",
    columns=("rows", "width", "table_rows"),
    relation="prediction.op_embedding",
    features=features,
    optional=("table_rows",),
    group=("width",),
    op_classes={"index_select": "embedding"},
)
