"""Layouts and types of results where those of fake kernels are not a CPU's.

A gradient in another layout than its parameter's is copied when it is kept, and a
tensor that is not contiguous when it is flattened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._prims_common import suggest_memory_format

if TYPE_CHECKING:
    from collections.abc import Sequence

_ATEN: Any = torch.ops.aten
_CONTIGUOUS = frozenset(
    (
        *(_ATEN.pow.Scalar, _ATEN.angle.default, _ATEN.glu_backward.default),
        _ATEN.log_sigmoid_forward.default,
    )
)
"""Ops whose results are contiguous, whatever they are given."""
_FORMATTED = {
    _ATEN.roll.default: 0,
    _ATEN.channel_shuffle.default: 0,
    _ATEN.max_unpool2d.default: 0,
    _ATEN.reflection_pad2d_backward.default: 1,
    _ATEN.replication_pad2d_backward.default: 1,
    _ATEN.native_batch_norm.default: 0,
}
"""Ops whose first result is contiguous, or has channels last like this argument."""
_LOSSES = {
    _ATEN.mse_loss_backward.default: 1,
    _ATEN.smooth_l1_loss_backward.default: 1,
    _ATEN.soft_margin_loss_backward.default: 1,
    _ATEN.huber_loss_backward.default: 1,
    _ATEN.huber_loss.default: 0,
}
"""Losses and gradients that are contiguous, in the type of this argument."""


def as_real(func: object, args: Sequence[Any], result: Any) -> object:  # noqa: ANN401 (what an op returns)
    """An op's result, with the layout and the type that it has on a CPU."""
    if func in _LOSSES:
        return _laid(result, torch.contiguous_format, args[_LOSSES[func]].dtype)
    if func in _FORMATTED:
        layout = suggest_memory_format(args[_FORMATTED[func]])
        if isinstance(result, tuple):
            return _laid(result[0], layout), *result[1:]
        return _laid(result, layout)
    if func not in _CONTIGUOUS:
        return result
    if isinstance(result, tuple):
        return tuple(_laid(one, torch.contiguous_format) for one in result)
    return _laid(result, torch.contiguous_format)


def _laid(
    made: torch.Tensor, layout: torch.memory_format, dtype: torch.dtype | None = None
) -> torch.Tensor:
    if made.is_contiguous(memory_format=layout) and dtype in (None, made.dtype):
        return made
    return torch.empty_like(made, memory_format=layout, dtype=dtype)
