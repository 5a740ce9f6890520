"""Softmax of rows and its gradient."""

from __future__ import annotations

from . import rows
from .family import Family

SOFTMAX = Family(
    name="softmax",
    columns=("rows", "width"),
    relation="prediction.op_softmax",
    features=rows.features,
    group=("width",),
    op_classes={
        "log_softmax": "softmax",
        "log_softmax_backward": "softmax_backward",
    },
    ops_alike=True,
)
