"""Elementwise ops: arithmetic, activations and their gradients, casts, dropout."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 (as PyTorch's own pages have it)
from torch import Tensor

from ..case import ARITY, COUNTED_ALIKE, Case
from ..errors import UnsupportedError
from .tensors import Maker, op_of

_DROPPED = 0.5
_aten = torch.ops.aten


def _cast(x: Tensor) -> Tensor:
    """Convert to half precision, or back."""
    return x.to(torch.float32 if x.element_size() < 4 else torch.bfloat16)  # noqa: PLR2004


_OPS: dict[str, Callable[..., object]] = {
    "add": torch.add,
    "mul": torch.mul,
    "sub": torch.sub,
    "div": torch.div,
    "rsub": torch.rsub,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "addcmul": torch.addcmul,
    "addcdiv": torch.addcdiv,
    "neg": torch.neg,
    "abs": torch.abs,
    "clamp_min": lambda x: torch.clamp_min(x, 0),
    "log": torch.log,
    "pow": lambda x: torch.pow(x, 3.0),
    "rsqrt": torch.rsqrt,
    "relu": torch.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "cast": _cast,
    "threshold_backward": lambda flow, x: _aten.threshold_backward(flow, x, 0),
    "gelu_backward": _aten.gelu_backward,
    "sigmoid_backward": _aten.sigmoid_backward,
    "tanh_backward": _aten.tanh_backward,
    "silu_backward": _aten.silu_backward,
    "native_dropout": lambda x: torch.native_dropout(x, _DROPPED, train=True),
    "bernoulli": lambda x: x.bernoulli_(_DROPPED),
}
_FILLED = "fill"


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make the op of a case; a second operand that is not read is a number."""
    make = Maker.of(case, device)
    if case.op == _FILLED:
        return make.random(case.shape["elements"]).zero_
    op = op_of(case, _OPS)
    inputs, outputs = {**ARITY, **COUNTED_ALIKE}[case.op]
    given = case.shape["inputs"]
    if case.shape["outputs"] != outputs or given > inputs:
        raise UnsupportedError(
            f"elementwise: {case.op} reads {inputs} and writes {outputs} tensors"
        )
    operands = [make.random(case.shape["elements"]) for _ in range(given)]
    return partial(op, *operands, *[2.0] * (inputs - given))
