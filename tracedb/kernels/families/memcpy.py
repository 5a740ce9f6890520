"""Copies between host and device, and on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .family import Family
from .waves import alignment

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Alignment of the size."""
    del hardware
    return {"alignment_bytes": alignment(shapes["bytes"])}


MEMCPY = Family(
    name="memcpy",
    columns=("bytes",),
    relation="prediction.gpu_copy",
    features=features,
    bandwidths={
        "h2d": "pcie_bytes_per_second",
        "d2h": "pcie_bytes_per_second",
        "h2d_pageable": "pageable_bytes_per_second",
        "d2h_pageable": "pageable_bytes_per_second",
    },
    is_typed=False,
)
