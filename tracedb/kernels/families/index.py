"""Elements chosen by index, or by their place: gather, scatter, tril."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import rows
from .family import Family, no_flops
from .lookup import INDEX_BYTES

if TYPE_CHECKING:
    from .family import Floats, Shapes

# Indices that an op reads: one an element, or one a row; tril needs none.
_PER_ELEMENT = {"gather": 1.0, "scatter": 1.0}
_PER_ROW = {"index": 1.0}


def read_bytes(shapes: Shapes) -> Floats:
    """[B] The elements and their indices."""
    per_element = shapes.by_op(_PER_ELEMENT, 0) * rows.elements(shapes)
    indices = per_element + shapes.by_op(_PER_ROW, 0) * shapes["rows"]
    return rows.tensor_bytes(shapes) + indices * INDEX_BYTES


INDEX = Family(
    name="index",
    columns=("rows", "width"),
    flops=no_flops,
    read_bytes=read_bytes,
    written_bytes=rows.tensor_bytes,
    features=rows.features,
    group=("width",),
    ops_alike=True,
)
