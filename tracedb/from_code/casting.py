"""Copies of inputs in another dtype, which ops of a CPU make before they compute.

On a CPU, an elementwise op converts each input to the dtype in which it computes
(`TensorIterator.cpp`), and so do reductions (`ReduceOps.cpp`): a mask of booleans is
copied as floats where it multiplies some, as integers where it is counted. An op in
place converts its result back, too. Kernels of a GPU convert while they load.

Norms of half precision with parameters in fp32 keep statistics in fp32; those of fake
tensors do not, and their gradient of a group norm is not in half precision.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_ATEN: Any = torch.ops.aten
_REDUCTIONS = frozenset(
    (
        *(_ATEN.sum, _ATEN.prod, _ATEN.mean, _ATEN.cumsum, _ATEN.cumprod),
        _ATEN.linalg_vector_norm,
    )
)
_TESTS = frozenset((_ATEN.any, _ATEN.all))
_MASK_AT = {_ATEN.where: 0, _ATEN.masked_fill: 1, _ATEN.masked_fill_: 1}
"""Where the arguments have a mask, which is not converted."""
HALF = (torch.float16, torch.bfloat16)
"""Half precision; its mean is summed up as float32."""
_TESTED = (torch.bool, torch.uint8)
_SCATTERS = frozenset((_ATEN.scatter, _ATEN.scatter_))
"""Ops that write half precision to a copy as float32."""
_LOSSES = frozenset((_ATEN.mse_loss, _ATEN.smooth_l1_loss, _ATEN.huber_loss))
"""Losses that convert twice: what they are given, and what they make."""
_WEIGHTS_AT = {
    _ATEN.native_batch_norm.default: slice(1, 5),
    _ATEN.native_layer_norm.default: slice(2, 4),
    _ATEN.native_group_norm.default: slice(1, 3),
}
"""Where the arguments of norms have the weights, and running statistics."""
_GROUP_GRADIENT = _ATEN.native_group_norm_backward.default


def beside(func: Any, args: Sequence[Any], result: object) -> int:  # noqa: ANN401 (an overload)
    """[B] What the op of a CPU converts its inputs and its result to."""
    if not isinstance(result, torch.Tensor) or func.is_view:
        return 0
    op = func.overloadpacket
    if op in _TESTS:
        return 0 if args[0].dtype in _TESTED else int(args[0].numel())
    if op in _REDUCTIONS:
        is_half_mean = op is _ATEN.mean and result.dtype in HALF
        return _converted(args[:1], torch.float32 if is_half_mean else result.dtype)
    if op in _SCATTERS:
        return 4 * result.numel() if result.dtype in HALF else 0
    if op in _LOSSES:
        return _within_loss(args[:2], result.dtype)
    is_elementwise = torch.Tag.pointwise in func.tags
    return _elementwise(func, args, result) if is_elementwise else 0


def of_norm(func: object, args: Sequence[Any], result: Any) -> object:  # noqa: ANN401 (what an op returns)
    """A norm's result, with statistics in the dtype of its weights; or its gradient."""
    if func is _GROUP_GRADIENT:
        given, *others = result
        return None if given is None else given.to(args[0].dtype), *others
    if func not in _WEIGHTS_AT:
        return result
    weights = args[_WEIGHTS_AT[func]]
    dtype = next((one.dtype for one in weights if one is not None), args[0].dtype)
    if dtype == args[0].dtype:
        return result
    made, *statistics = result
    return made, *(one.new_empty(one.shape, dtype=dtype) for one in statistics)


def _elementwise(func: Any, args: Sequence[Any], result: torch.Tensor) -> int:  # noqa: ANN401
    mask = _MASK_AT.get(func.overloadpacket)
    values = [one for place, one in enumerate(args) if place != mask]
    given = [one for one in values if isinstance(one, torch.Tensor)]
    if any(one.is_complex() for one in given):
        return 0
    is_truth = result.dtype is torch.bool
    is_in_place = func._schema.is_mutable  # noqa: SLF001 (it has no public name)
    if mask is not None or not (is_in_place or is_truth):
        return _converted(given, result.dtype)
    numbers = [one for one in values if isinstance(one, (bool, int, float))]
    # Truth is written as it is.
    made = [] if is_truth else [result]
    return _converted([*given, *made], _promoted([*given, *numbers]))


def _within_loss(given: Sequence[torch.Tensor], dtype: torch.dtype) -> int:
    averaged = 4 * given[0].numel() if dtype in HALF else 0
    return max(2 * _converted(given, _promoted(given)), averaged)


def _promoted(values: Sequence[Any]) -> torch.dtype:
    """The dtype in which an op of tensors and numbers computes."""
    pairs = [torch.result_type(*pair) for pair in pairwise(values)]
    found: torch.dtype = reduce(torch.promote_types, pairs or [values[0].dtype])
    return found


def _converted(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> int:
    size = sum(one.numel() for one in tensors if one.dtype != dtype)
    return size * dtype.itemsize
