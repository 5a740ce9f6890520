"""Matrix products: `batch` times (m x k) by (k x n)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .waves import alignment, wave_features

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes

_TILES = (
    *((64, 64), (64, 128), (64, 256), (128, 64)),
    *((128, 128), (128, 256), (256, 128)),
)
"""Output tiles that libraries choose from for matrix units, which take short types."""
_FULL_BYTES = 4
"""Bytes of an element that goes to no matrix unit as it is."""


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Tiles and waves, alignment, and how far the reduction could be split."""
    batch, m, n, k = (shapes[name] for name in ("batch", "m", "n", "k"))
    found = wave_features(m, n, batch, hardware)
    if np.all(shapes.element_bytes < _FULL_BYTES):
        found |= _tile_costs(m, n, batch, hardware)
    for name, size in (("m", m), ("n", n), ("k", k)):
        found[f"alignment_{name}"] = alignment(size)
    found["log_k_per_output"] = np.log(k / np.sqrt(m * n))
    found["log_m_per_n"] = np.log(m / n)
    return found


def _tile_costs(
    rows: Floats, columns: Floats, batch: Floats, hardware: Figures
) -> dict[str, Floats]:
    """What the busiest multiprocessor computes, over its part of the output.

    For each tile size, and for the one that wastes least: a library takes about that.
    """
    found = {}
    processors = hardware["sm_count"]
    part = batch * rows * columns / processors
    for height, width in _TILES:
        tiles = batch * np.ceil(rows / height) * np.ceil(columns / width)
        busiest = np.ceil(tiles / processors) * (height * width)
        found[f"log_cost_{height}x{width}"] = np.log(busiest / part)
    found["log_cost_least"] = np.minimum.reduce(list(found.values()))
    return found


GEMM = Family(
    name="gemm",
    columns=("batch", "m", "n", "k"),
    relation="prediction.op_gemm",
    features=features,
    optional=("batch",),
    uses_matrix_units=True,
    arithmetic_saved=1.0,
    group=("batch", "n", "k"),
    op_classes={
        "mm": "gemm",
        "addmm": "gemm",
        "linear": "gemm",
        "matmul": "gemm",
        "baddbmm": "bmm",
    },
)
