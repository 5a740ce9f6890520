"""Cumulative sums and sorts of rows."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..case import Case
from .tensors import Maker, op_of

_SCANS: dict[str, Callable[..., Tensor | tuple[Tensor, Tensor]]] = {
    "cumsum": lambda x: torch.cumsum(x, 1),
    "cumprod": lambda x: torch.cumprod(x, 1),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
    "cummax": lambda x: torch.cummax(x, 1),
    "sort": lambda x: torch.sort(x, dim=1),
}


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Scan or sort every row."""
    make = Maker.of(case, device)
    x = make.random(case.shape["rows"], case.shape["width"])
    return partial(op_of(case, _SCANS), x)
