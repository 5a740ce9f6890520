"""Layer, RMS, batch, group and instance norm, forward and backward.

Rows of batch, group and instance norm are what shares a mean.
"""

from __future__ import annotations

from . import rows
from .family import Family

NORMALISATION = Family(
    name="normalisation",
    columns=("rows", "width"),
    relation="prediction.op_normalisation",
    features=rows.features,
    group=("width",),
    ops_alike=True,
)
