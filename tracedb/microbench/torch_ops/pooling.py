"""Max pooling of images, forward and backward."""

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
"""3 x 3 windows with stride 2, as in the first layer of a ResNet."""


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make images with about as many elements as the case."""
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
