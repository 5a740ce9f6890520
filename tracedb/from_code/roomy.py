"""Results whose memory has room for more elements than they have.

PyTorch 2.13 allocates some results larger, and shrinks them, but not their memory, on
CPUs and GPUs alike: those of `mse_loss` and `smooth_l1_loss` for a number of each
element, which are first written to another such tensor (`Loss.cpp`), and that of
`col2im` for its input (`Col2Im.cpp`, `Col2Im.cu`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ATEN: Any = torch.ops.aten
_LOSSES = (_ATEN.mse_loss.default, _ATEN.smooth_l1_loss.default)
_MEAN = 1
"""The usual argument `reduction`; 0 is none, 2 the sum."""


def grow(
    func: object,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,  # noqa: ANN401 (what an op returns)
) -> int:
    """Give a result its room; return the [B] that the op holds beside it."""
    if func is _ATEN.col2im.default:
        result.untyped_storage().resize_(args[0].numel() * args[0].itemsize)
    if func not in _LOSSES:
        return 0
    given, target, *others = args
    if not (others[0] if others else kwargs.get("reduction", _MEAN)):
        return 0
    shape: Any = torch.broadcast_shapes(given.shape, target.shape)  # type: ignore[no-untyped-call]
    size = int(shape.numel()) * int(result.itemsize)
    result.untyped_storage().resize_(size)
    return size
