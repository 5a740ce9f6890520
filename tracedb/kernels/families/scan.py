"""Cumulative sums and sorts along the rows."""

from __future__ import annotations

from . import rows
from .family import Family

SCAN = Family(
    name="scan",
    columns=("rows", "width"),
    relation="prediction.op_scan",
    features=rows.features,
    group=("width",),
)
