"""Convolutions in two dimensions, forward and towards input and weight.

All three multiply the same numbers; they differ in which tensors are read and written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .waves import alignment, wave_features

if TYPE_CHECKING:
    from collections.abc import Callable

    from .family import Figures, Floats, Shapes

_OPTIONAL = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


@dataclass(frozen=True)
class _Tensors:
    """Elements of the three tensors, and the convolution as a product."""

    input: Floats
    weight: Floats
    output: Floats
    pixels: Floats
    """Output pixels of all images."""
    depth: Floats
    """Products that are added for each output element."""

    @classmethod
    def of(cls, shapes: Shapes) -> _Tensors:
        def size(name: str) -> Floats:
            return shapes.known(name, _OPTIONAL.get(name, np.nan))

        channels_in = size("channels_in") / size("groups")
        depth = channels_in * size("kernel_height") * size("kernel_width")
        pixels = size("images") * _output(size, "height") * _output(size, "width")
        return cls(
            size("images") * size("channels_in") * size("height") * size("width"),
            size("channels_out") * depth,
            pixels * size("channels_out"),
            pixels,
            depth,
        )


def _output(size: Callable[[str], Floats], direction: str) -> Floats:
    """Output pixels in one direction."""
    reach = size("dilation") * (size(f"kernel_{direction}") - 1) + 1
    steps = np.floor((size(direction) + 2 * size("padding") - reach) / size("stride"))
    pixels: Floats = np.maximum(steps + 1, 1)
    return pixels


def flops(shapes: Shapes) -> Floats:
    """[FLOP] Two for each output element and each product that is added for it."""
    tensors = _Tensors.of(shapes)
    return 2 * tensors.output * tensors.depth


def written_bytes(shapes: Shapes) -> Floats:
    """[B] The output, or the gradient of the input or weight."""
    tensors = _Tensors.of(shapes)
    written = np.select(
        [shapes.op == "backward_input", shapes.op == "backward_weight"],
        [tensors.input, tensors.weight],
        tensors.output,
    )
    return written * shapes.element_bytes


def read_bytes(shapes: Shapes) -> Floats:
    """[B] The two tensors that are not written."""
    tensors = _Tensors.of(shapes)
    every = tensors.input + tensors.weight + tensors.output
    return every * shapes.element_bytes - written_bytes(shapes)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Those of the product (pixels x depth) by (depth x output channels)."""
    tensors = _Tensors.of(shapes)
    groups = shapes.known("groups", 1)
    columns = shapes["channels_out"] / groups
    found = wave_features(tensors.pixels, columns, groups, hardware)
    found["log_pixels"] = np.log(tensors.pixels)
    found["log_depth"] = np.log(tensors.depth)
    found["alignment_in"] = alignment(shapes["channels_in"] / groups)
    found["alignment_out"] = alignment(columns)
    return found


CONVOLUTION = Family(
    name="convolution",
    columns=(
        *("images", "channels_in", "channels_out", "height", "width"),
        *("kernel_height", "kernel_width", "stride", "padding", "dilation", "groups"),
    ),
    flops=flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    features=features,
    optional=_OPTIONAL,
    uses_matrix_units=True,
    group=("channels_in", "channels_out", "height", "width", "kernel_height"),
)
