"""Lookups of single rows of one table: `rows` rows of `width` elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family, no_flops
from .lookup import INDEX_BYTES, cache_features, distinct_rows
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def gathered_bytes(shapes: Shapes) -> Floats:
    """[B] The rows that are looked up, each time that they are."""
    return shapes["rows"] * shapes["width"] * shapes.element_bytes


def read_bytes(shapes: Shapes) -> Floats:
    """[B] The rows and their indices."""
    return gathered_bytes(shapes) + shapes["rows"] * INDEX_BYTES


def distinct(shapes: Shapes) -> Floats:
    """Distinct rows that are looked up; all of them where the table is unknown."""
    return distinct_rows(shapes["rows"], shapes.known("table_rows", np.inf))


def footprint_bytes(shapes: Shapes) -> Floats:
    """[B] Distinct rows, indices and the result."""
    table = distinct(shapes) * shapes["width"] * shapes.element_bytes
    return table + shapes["rows"] * INDEX_BYTES + gathered_bytes(shapes)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Reuse of rows and what caches keep."""
    row_bytes = shapes["width"] * shapes.element_bytes
    found = cache_features(shapes["rows"], distinct(shapes), row_bytes, hardware)
    found["alignment_width"] = alignment(shapes["width"])
    return found


EMBEDDING = Family(
    name="embedding",
    columns=("rows", "width", "table_rows"),
    flops=no_flops,
    read_bytes=read_bytes,
    written_bytes=gathered_bytes,
    footprint_bytes=footprint_bytes,
    features=features,
    optional={"table_rows": np.inf},
    group=("width",),
    op_classes={"index_select": "embedding"},
)
