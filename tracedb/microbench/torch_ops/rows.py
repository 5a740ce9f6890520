"""Work by rows: reductions, softmax, normalisation, and the gradients of the latter."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F  # noqa: N812 (as PyTorch's own pages have it)
from torch import Tensor

from ..case import Case
from .tensors import Maker, gradient, op_of

_BACKWARD = "_backward"
_IMAGES, _CHANNELS = 32, 64
_Op = TypeVar("_Op")

_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "amax": lambda x: x.amax(1),
    "linalg_vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1),
}
_SOFTMAX: dict[str, Callable[..., Tensor]] = {
    "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
}
_LOSSES: dict[str, Callable[..., Tensor]] = {
    "mse_loss": F.mse_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
}


def reduction(case: Case, device: torch.device) -> Callable[[], object]:
    """Reduce every row to one number; a loss reduces all of them."""
    make = Maker.of(case, device)
    op = op_of(case, _REDUCTIONS | _LOSSES)
    shape = (case.shape["rows"], case.shape["width"])
    operands = 1 + (case.op in _LOSSES)
    return partial(op, *(make.random(*shape) for _ in range(operands)))


def softmax(case: Case, device: torch.device) -> Callable[[], object]:
    """Make the softmax of every row, or its gradient."""
    make = Maker.of(case, device)
    op = op_of(case, _with_gradients(_SOFTMAX))
    shape = (case.shape["rows"], case.shape["width"])
    if case.op.endswith(_BACKWARD):
        x = make.learnt(*shape)
        return gradient(op(x), x)
    return partial(op, make.random(*shape))


def normalisation(case: Case, device: torch.device) -> Callable[[], object]:
    """Normalise, with learned scale and shift."""
    make = Maker.of(case, device)
    norm = op_of(case, _with_gradients(_NORMS))
    is_backward = case.op.endswith(_BACKWARD)
    tensor = make.learnt if is_backward else make.random
    inputs, work = norm(case.shape["rows"], case.shape["width"], tensor)
    return gradient(work(), *inputs) if is_backward else work


_Normed = tuple[list[Tensor], Callable[[], Tensor]]


def _layer_norm(rows: int, width: int, tensor: Callable[..., Tensor]) -> _Normed:
    x, scale, shift = tensor(rows, width), tensor(width), tensor(width)
    return [x, scale, shift], lambda: F.layer_norm(x, (width,), scale, shift)


def _rms_norm(rows: int, width: int, tensor: Callable[..., Tensor]) -> _Normed:
    x, scale = tensor(rows, width), tensor(width)
    return [x, scale], lambda: F.rms_norm(x, (width,), scale)


def _batch_norm(rows: int, width: int, tensor: Callable[..., Tensor]) -> _Normed:
    """Batch norm with rows as channels, with elements in as many images as possible."""
    images = next(n for n in range(_IMAGES, 0, -1) if width % n == 0)
    return _batch_normed(tensor(images, rows, width // images), tensor)


def _batch_norm_nchw(rows: int, width: int, tensor: Callable[..., Tensor]) -> _Normed:
    """Batch norm with rows as channels of images: each lies in one piece."""
    channels = next(n for n in range(_CHANNELS, 0, -1) if rows % n == 0)
    return _batch_normed(tensor(rows // channels, channels, width), tensor)


def _batch_norm_nhwc(rows: int, width: int, tensor: Callable[..., Tensor]) -> _Normed:
    """Batch norm with rows as examples: all channels of one lie in one piece."""
    return _batch_normed(tensor(rows, width), tensor)


def _batch_normed(x: Tensor, tensor: Callable[..., Tensor]) -> _Normed:
    scale, shift = tensor(x.shape[1]), tensor(x.shape[1])
    return [x, scale, shift], lambda: F.batch_norm(
        x, None, None, scale, shift, training=True
    )


_NORMS: dict[str, Callable[..., _Normed]] = {
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "batch_norm_nchw": _batch_norm_nchw,
    "batch_norm_nhwc": _batch_norm_nhwc,
}


def _with_gradients(ops: dict[str, _Op]) -> dict[str, _Op]:
    """Add an entry for each op's gradient."""
    return ops | {f"{name}{_BACKWARD}": op for name, op in ops.items()}
