"""Matrix products: mm, addmm, bmm, baddbmm, linear; int8 by FBGEMM on a CPU."""

import warnings
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 (as PyTorch's own pages have it)

from ..case import Case, Shape
from ..errors import UnsupportedError
from .tensors import Maker

_Work = Callable[[], object]


def build(case: Case, device: torch.device) -> _Work:
    """Make the product of a case."""
    table = _INT8 if case.dtype == "int8" else _PRODUCTS
    name = f"{device.type} {case.op}" if case.dtype == "int8" else case.op
    if name not in table:
        raise UnsupportedError(f"gemm: no {case.op} of {case.dtype} on {device.type}")
    if case.shape["batch"] > 1 and case.op not in ("bmm", "baddbmm"):
        raise UnsupportedError(f"gemm: {case.op} has no batch; bmm has")
    return table[name](case.shape, Maker.of(case, device))


def _mm(s: Shape, make: Maker) -> _Work:
    return partial(torch.mm, make.random(s["m"], s["k"]), make.random(s["k"], s["n"]))


def _addmm(s: Shape, make: Maker) -> _Work:
    left, right = make.random(s["m"], s["k"]), make.random(s["k"], s["n"])
    return partial(torch.addmm, make.random(s["n"]), left, right)


def _linear(s: Shape, make: Maker) -> _Work:
    weight, bias = make.random(s["n"], s["k"]), make.random(s["n"])
    return partial(F.linear, make.random(s["m"], s["k"]), weight, bias)


def _factors(s: Shape, make: Maker) -> tuple[torch.Tensor, torch.Tensor]:
    batch = s["batch"]
    return make.random(batch, s["m"], s["k"]), make.random(batch, s["k"], s["n"])


def _bmm(s: Shape, make: Maker) -> _Work:
    return partial(torch.bmm, *_factors(s, make))


def _baddbmm(s: Shape, make: Maker) -> _Work:
    added = make.random(s["batch"], s["m"], s["n"])
    return partial(torch.baddbmm, added, *_factors(s, make))


def _int_mm(s: Shape, make: Maker) -> _Work:
    left, right = make.random(s["m"], s["k"]), make.random(s["n"], s["k"])
    return partial(torch._int_mm, left, right.t())  # noqa: SLF001  # type: ignore[attr-defined]


def _fbgemm(s: Shape, make: Maker) -> _Work:
    """Quantise weights by channel and inputs by tensor, as FBGEMM's layers do.

    The work is the product and the quantisation of its result, bias included.
    """
    del make
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        raise UnsupportedError("gemm: this PyTorch has no FBGEMM for int8")
    torch.backends.quantized.engine = "fbgemm"
    scales, zeros = torch.full((s["n"],), 0.05), torch.zeros(s["n"], dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.13 calls quantised tensors deprecated
        weight = torch.quantize_per_channel(
            torch.randn(s["n"], s["k"]), scales, zeros, 0, torch.qint8
        )
        inputs = torch.quantize_per_tensor(
            torch.randn(s["m"], s["k"]), 0.05, 64, torch.quint8
        )
    packed = torch.ops.quantized.linear_prepack(weight, torch.randn(s["n"]))
    return partial(torch.ops.quantized.linear, inputs, packed, 0.1, 64)


_PRODUCTS: dict[str, Callable[[Shape, Maker], _Work]] = {
    "mm": _mm,
    "addmm": _addmm,
    "linear": _linear,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
}
_INT8: dict[str, Callable[[Shape, Maker], _Work]] = {
    "cpu linear": _fbgemm,
    "cuda mm": _int_mm,
}
