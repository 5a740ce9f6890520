"""Pooled lookups: `tables` tables, `bags` bags of `pooling` rows from each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .lookup import cache_features
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Reuse of rows, what caches keep, and bags for each multiprocessor."""
    row_bytes = shapes["width"] * shapes.element_bytes
    lookups, distinct = shapes["rows"], shapes["distinct_rows"]
    found = cache_features(lookups, distinct, row_bytes, hardware)
    bags = shapes["tables"] * shapes["bags"]
    found["log_bags_per_sm"] = np.log(bags / hardware["sm_count"])
    found["alignment_width"] = alignment(shapes["width"])
    return found


EMBEDDING_BAG = Family(
    name="embedding_bag",
    columns=("tables", "table_rows", "width", "bags", "pooling", "distinct_rows"),
    relation="prediction.op_embedding_bag",
    features=features,
    optional=("tables", "distinct_rows", "table_rows"),
    group=("tables", "table_rows", "width", "pooling"),
)
