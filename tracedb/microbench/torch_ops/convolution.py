"""Convolutions of images: forward, and backward to the images or to the weights."""

from collections.abc import Callable
from functools import partial

import torch

from ..case import Case
from .tensors import Maker, op_of

_BACKWARD: dict[str, tuple[bool, bool, bool]] = {
    "backward_input": (True, False, False),
    "backward_weight": (False, True, False),
}


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make the convolution of a case."""
    s, make = case.shape, Maker.of(case, device)
    op_of(case, dict.fromkeys(("forward", *_BACKWARD), torch.convolution))
    images = make.random(s["images"], s["channels_in"], s["height"], s["width"])
    kernel = (s["kernel_height"], s["kernel_width"])
    weight = make.random(s["channels_out"], s["channels_in"] // s["groups"], *kernel)
    how = (
        *([s["stride"]] * 2, [s["padding"]] * 2, [s["dilation"]] * 2),
        *(False, [0, 0], s["groups"]),
    )
    if case.op == "forward":
        return partial(torch.convolution, images, weight, None, *how)
    flow = torch.rand_like(torch.convolution(images, weight, None, *how))
    backward = torch.ops.aten.convolution_backward
    return partial(backward, flow, images, weight, None, *how, _BACKWARD[case.op])
