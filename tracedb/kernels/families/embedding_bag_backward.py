"""Gradients of pooled lookups, fused with the update of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import embedding_bag
from .family import Family

if TYPE_CHECKING:
    from .family import Floats, Shapes


def flops(shapes: Shapes) -> Floats:
    """[FLOP] A multiplication and an addition for each element that was looked up."""
    return 2 * embedding_bag.flops(shapes)


def read_bytes(shapes: Shapes) -> Floats:
    """[B] Gradients of bags, indices, and the rows that are updated."""
    return embedding_bag.pooled_bytes(shapes) + embedding_bag.read_bytes(shapes)


def written_bytes(shapes: Shapes) -> Floats:
    """[B] The rows, each time that they were looked up."""
    return embedding_bag.lookups(shapes) * embedding_bag.row_bytes(shapes)


EMBEDDING_BAG_BACKWARD = Family(
    name="embedding_bag_backward",
    columns=embedding_bag.EMBEDDING_BAG.columns,
    flops=flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    footprint_bytes=embedding_bag.footprint_bytes,
    features=embedding_bag.features,
    optional=embedding_bag.EMBEDDING_BAG.optional,
    group=embedding_bag.EMBEDDING_BAG.group,
)
