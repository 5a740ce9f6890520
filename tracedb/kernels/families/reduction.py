"""Sums, means and losses: each of `rows` rows becomes one number."""

from __future__ import annotations

from . import rows
from .family import Family

REDUCTION = Family(
    name="reduction",
    columns=("rows", "width"),
    relation="prediction.op_reduction",
    features=rows.features,
    group=("width",),
    op_classes={"mean": "sum"},
    ops_alike=True,
)
