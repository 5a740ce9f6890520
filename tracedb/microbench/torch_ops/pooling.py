"""The largest element of each window of images, and where its gradient goes."""

from collections.abc import Callable
from functools import partial
from math import isqrt

import torch

from ..case import Case
from .tensors import Maker, op_of

_BACKWARD = "max_pool2d_with_indices_backward"
_OPS = dict.fromkeys(("max_pool2d_with_indices", _BACKWARD), None)
_CHANNELS, _MOST_SIDE = 16, 56
_WINDOW = ((3, 3), (2, 2), (1, 1), (1, 1), False)
"""Of 3 x 3 pixels, every second, as the first of a residual network."""


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make images of about so many elements: their windows say what the work is."""
    op_of(case, _OPS)
    make, pixels = Maker.of(case, device), max(case.shape["elements"] // _CHANNELS, 4)
    side = min(isqrt(pixels), _MOST_SIDE)
    images = make.random(max(pixels // side**2, 1), _CHANNELS, side, side)
    aten = torch.ops.aten
    if case.op != _BACKWARD:
        return partial(aten.max_pool2d_with_indices, images, *_WINDOW)
    pooled, places = aten.max_pool2d_with_indices(images, *_WINDOW)
    flow = torch.rand_like(pooled)
    return partial(
        aten.max_pool2d_with_indices_backward, flow, images, *_WINDOW, places
    )
