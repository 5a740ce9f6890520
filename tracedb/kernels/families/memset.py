"""Memory set to one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .family import Family, no_flops
from .memcpy import features

if TYPE_CHECKING:
    from .family import Floats, Shapes


def written_bytes(shapes: Shapes) -> Floats:
    """[B] All of them."""
    return shapes["bytes"]


MEMSET = Family(
    name="memset",
    columns=("bytes",),
    flops=no_flops,
    read_bytes=no_flops,
    written_bytes=written_bytes,
    features=features,
    is_typed=False,
)
