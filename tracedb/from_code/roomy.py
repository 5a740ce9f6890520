"""Memory that ops hold beside their results, on CPUs and GPUs alike.

PyTorch 2.13 allocates some results larger, and shrinks them, but not their memory:
those of `mse_loss`, `smooth_l1_loss`, `soft_margin_loss` and `binary_cross_entropy` for
a number of each element (the first two write these to another such tensor), and that of
`col2im` for its input (`Loss.cpp`, `Col2Im.cpp`, `Col2Im.cu`). Others compute with
tensors of their own: `logsumexp` with one, `soft_margin_loss_backward` with three,
before it makes its result (`ReduceOps.cpp`, `Loss.cpp`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ATEN: Any = torch.ops.aten
_LOSSES: dict[Any, tuple[int, int]] = {
    _ATEN.mse_loss.default: (2, 1),
    _ATEN.smooth_l1_loss.default: (2, 1),
    _ATEN.soft_margin_loss.default: (2, 0),
    _ATEN.binary_cross_entropy.default: (3, 0),
}
"""Where losses have the argument `reduction`, and how many tensors they write first."""
_LOGITS = _ATEN.binary_cross_entropy_with_logits.default
_MEAN = 1
"""The usual argument `reduction`; 0 is none, 2 the sum."""
_WITHIN: dict[Any, tuple[int, int]] = {
    _ATEN.logsumexp.default: (0, 1),
    _ATEN.soft_margin_loss_backward.default: (1, 2),
}
"""How many tensors like an argument, and which one, an op holds beside its result."""
_WITHIN_CPU: dict[Any, tuple[int, int]] = {
    _ATEN._embedding_bag_backward.default: (1, 3),  # noqa: SLF001 (PyTorch's name)
}
"""The same on a CPU, where indices are sorted (`EmbeddingBag.cpp`)."""


def grow(
    func: object,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,  # noqa: ANN401 (what an op returns)
    *,
    is_on_cpu: bool,
) -> int:
    """Give a result its room; return the [B] that the op holds beside it."""
    if func is _ATEN.col2im.default:
        result.untyped_storage().resize_(args[0].numel() * args[0].itemsize)
    within = _WITHIN.get(func) or (_WITHIN_CPU.get(func) if is_on_cpu else None)
    if within is not None:
        place, count = within
        return int(count * args[place].numel() * args[place].itemsize)
    if func is _LOGITS:
        return _within_logits(args, kwargs)
    if func not in _LOSSES:
        return 0
    place, count = _LOSSES[func]
    given, target = args[:2]
    if not (args[place] if len(args) > place else kwargs.get("reduction", _MEAN)):
        return 0
    shape: Any = torch.broadcast_shapes(given.shape, target.shape)  # type: ignore[no-untyped-call]
    size = int(shape.numel()) * int(result.itemsize)
    result.untyped_storage().resize_(size)
    return count * size


def _within_logits(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """[B] Sigmoids or weights of all elements, and losses if they are reduced."""
    reduction = args[4] if len(args) > 4 else kwargs.get("reduction", _MEAN)  # noqa: PLR2004
    return int((1 + bool(reduction)) * args[0].numel() * args[0].itemsize)
