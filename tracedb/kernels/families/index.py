"""Elements chosen by index, or by their place: gather, scatter, tril."""

from __future__ import annotations

from . import rows
from .family import Family

INDEX = Family(
    name="index",
    columns=("rows", "width"),
    relation="prediction.op_index",
    features=rows.features,
    group=("width",),
    ops_alike=True,
)
