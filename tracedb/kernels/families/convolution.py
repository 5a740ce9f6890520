"""Convolutions in two dimensions, forward and towards input and weight.

All three multiply the same numbers; they differ in which tensors are read and written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .waves import alignment, wave_features

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Those of the product (pixels x depth) by (depth x output channels)."""
    groups = shapes["groups"]
    inputs, outputs = shapes["channels_in"] / groups, shapes["channels_out"] / groups
    pixels = shapes["images"] * shapes["output_height"] * shapes["output_width"]
    found = wave_features(pixels, outputs, groups, hardware)
    found["log_pixels"] = np.log(pixels)
    found["log_depth"] = np.log(
        inputs * shapes["kernel_height"] * shapes["kernel_width"]
    )
    found["alignment_in"] = alignment(inputs)
    found["alignment_out"] = alignment(outputs)
    return found


CONVOLUTION = Family(
    name="convolution",
    columns=(
        *("images", "channels_in", "channels_out", "height", "width"),
        *("kernel_height", "kernel_width", "stride", "padding", "dilation", "groups"),
    ),
    relation="prediction.op_convolution",
    features=features,
    optional=("stride", "padding", "dilation", "groups"),
    uses_matrix_units=True,
    # Winograd's for filters of 3 x 3, with tiles of 4 x 4.
    arithmetic_saved=4.0,
    group=("channels_in", "channels_out", "height", "width", "kernel_height"),
)
