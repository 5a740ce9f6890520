"""Pooled lookups: `tables` tables, `bags` bags of `pooling` rows from each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .lookup import INDEX_BYTES, cache_features, distinct_rows
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def lookups(shapes: Shapes) -> Floats:
    """Rows that are looked up, in all tables together."""
    return shapes.known("tables", 1) * shapes["bags"] * shapes["pooling"]


def row_bytes(shapes: Shapes) -> Floats:
    """[B] Of one row."""
    return shapes["width"] * shapes.element_bytes


def distinct(shapes: Shapes) -> Floats:
    """Distinct rows looked up; where unknown, as if at random, uniformly."""
    tables = shapes.known("tables", 1)
    table_rows = shapes.known("table_rows", np.inf)
    guess = tables * distinct_rows(lookups(shapes) / tables, table_rows)
    return np.maximum(shapes.known("distinct_rows", guess), 1)


def index_bytes(shapes: Shapes) -> Floats:
    """[B] One index a lookup, one offset a bag."""
    bags = shapes.known("tables", 1) * shapes["bags"]
    return (lookups(shapes) + bags) * INDEX_BYTES


def pooled_bytes(shapes: Shapes) -> Floats:
    """[B] One row a bag."""
    return shapes.known("tables", 1) * shapes["bags"] * row_bytes(shapes)


def flops(shapes: Shapes) -> Floats:
    """[FLOP] One addition for each element that is looked up."""
    return lookups(shapes) * shapes["width"]


def read_bytes(shapes: Shapes) -> Floats:
    """[B] Every row that is looked up, each time, with indices and offsets."""
    return lookups(shapes) * row_bytes(shapes) + index_bytes(shapes)


def footprint_bytes(shapes: Shapes) -> Floats:
    """[B] Distinct rows, indices, offsets and the pooled rows."""
    table = distinct(shapes) * row_bytes(shapes)
    return table + index_bytes(shapes) + pooled_bytes(shapes)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Reuse of rows, what caches keep, and bags for each multiprocessor."""
    size = row_bytes(shapes)
    found = cache_features(lookups(shapes), distinct(shapes), size, hardware)
    bags = shapes.known("tables", 1) * shapes["bags"]
    found["log_bags_per_sm"] = np.log(bags / hardware["sm_count"])
    found["alignment_width"] = alignment(shapes["width"])
    return found


EMBEDDING_BAG = Family(
    name="embedding_bag",
    columns=("tables", "table_rows", "width", "bags", "pooling", "distinct_rows"),
    flops=flops,
    read_bytes=read_bytes,
    written_bytes=pooled_bytes,
    footprint_bytes=footprint_bytes,
    features=features,
    optional={"tables": 1, "distinct_rows": distinct, "table_rows": np.inf},
    group=("tables", "table_rows", "width", "pooling"),
)
