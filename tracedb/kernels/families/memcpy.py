"""Copies between host and device, and on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family, no_flops
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def read_bytes(shapes: Shapes) -> Floats:
    """[B] All of them, on the side of the link from which they come."""
    return shapes["bytes"]


def written_bytes(shapes: Shapes) -> Floats:
    """[B] On the device, where they came from there; a link is crossed once."""
    return np.where(shapes.op == "d2d", shapes["bytes"], 0)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Alignment of the size."""
    del hardware
    return {"alignment_bytes": alignment(shapes["bytes"])}


MEMCPY = Family(
    name="memcpy",
    columns=("bytes",),
    flops=no_flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    features=features,
    bandwidths={
        "h2d": "pcie_bytes_per_second",
        "d2h": "pcie_bytes_per_second",
        "h2d_pageable": "pageable_bytes_per_second",
        "d2h_pageable": "pageable_bytes_per_second",
    },
    is_typed=False,
)
