"""Steps of optimizers over a list of tensors: many kernels (foreach), or fused ones."""

from collections.abc import Callable

import torch
from torch import optim

from ..case import Case
from ..errors import UnsupportedError
from .tensors import Maker

_FUSED = "fused_"
_OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {
    "sgd": optim.SGD,
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "adagrad": optim.Adagrad,
}


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make the step of an optimizer, all of whose tensors have a gradient."""
    kind = _OPTIMIZERS.get(case.op.removeprefix(_FUSED))
    if kind is None:
        raise UnsupportedError(
            f"optimizer: no op {case.op}; available: {', '.join(_OPTIMIZERS)}, each "
            f"also with {_FUSED}"
        )
    make, is_fused = Maker.of(case, device), case.op.startswith(_FUSED)
    each = max(1, case.shape["elements"] // case.shape["tensors"])
    weights = [make.learnt(each) for _ in range(case.shape["tensors"])]
    for weight in weights:
        weight.grad = make.random(each)
    optimizer = kind(weights, lr=1e-3, fused=is_fused, foreach=not is_fused)
    optimizer.step()  # creates its state
    return optimizer.step
