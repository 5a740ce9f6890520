"""Tiles and waves: how a product's output is spread over the multiprocessors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .family import Figures, Floats

TILES = ((32, 32), (64, 64), (128, 64), (128, 128), (256, 128))
"""Output tiles of common GEMM kernels; which one a library takes is not known."""


def wave_features(
    rows: Floats, columns: Floats, batch: Floats, hardware: Figures
) -> dict[str, Floats]:
    """Tiles per multiprocessor, waves, their fill, and padding, for each tile size.

    `rows` x `columns` is the output of one of `batch` products.
    """
    features = {}
    processors = hardware["sm_count"]
    for height, width in TILES:
        tiles = batch * np.ceil(rows / height) * np.ceil(columns / width)
        waves = np.ceil(tiles / processors)
        padded = tiles * (height * width)
        name = f"{height}x{width}"
        features[f"log_tiles_per_sm_{name}"] = np.log(tiles / processors)
        features[f"wave_fill_{name}"] = tiles / (waves * processors)
        features[f"log_waves_{name}"] = np.log(waves)
        features[f"log_padding_{name}"] = np.log(padded / (batch * rows * columns))
    return features


def alignment(size: Floats) -> Floats:
    """The logarithm of the largest power of two, up to 256, that divides a size."""
    whole = np.maximum(size, 1).astype(np.int64)
    found: Floats = np.log2(np.minimum(whole & -whole, 256).astype(float))
    return found
