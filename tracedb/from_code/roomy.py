"""Memory that ops hold beside their results, on CPUs and GPUs alike.

PyTorch 2.13 allocates some results larger, and shrinks them, but not their memory:
those of `mse_loss`, `smooth_l1_loss`, `soft_margin_loss` and `binary_cross_entropy` for
a number of each element (the first two write these to another such tensor), and that of
`col2im` for its input (`Loss.cpp`, `Col2Im.cpp`, `Col2Im.cu`). Others compute with
tensors of their own: `logsumexp` with one, `soft_margin_loss_backward` with three,
before it makes its result, softmax and `cdist` with contiguous ones (`ReduceOps.cpp`,
`Loss.cpp`, `SoftMax.cpp`, `Distance.cpp`), and on a CPU the gradient of bags with
sorted indices (`EmbeddingBag.cpp`), and products with copies of some factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ATEN: Any = torch.ops.aten
_LOSSES: dict[Any, tuple[int, int]] = {
    _ATEN.mse_loss.default: (2, 1),
    _ATEN.smooth_l1_loss.default: (2, 1),
    _ATEN.soft_margin_loss.default: (2, 0),
    _ATEN.binary_cross_entropy.default: (3, 0),
}
"""Where losses have the argument `reduction`, and how many tensors they write first."""
_MEAN = 1
"""The usual argument `reduction`; 0 is none, 2 the sum."""
_WITHIN: dict[Any, tuple[int, int]] = {
    _ATEN.logsumexp.default: (0, 1),
    _ATEN.soft_margin_loss_backward.default: (1, 2),
}
"""How many tensors like an argument, and which one, an op holds beside its result."""
_CONTIGUOUS = {
    _ATEN._softmax.default: (0,),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._log_softmax.default: (0,),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._softmax_backward_data.default: (0, 1),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._log_softmax_backward_data.default: (0, 1),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._cdist_forward.default: (0, 1),  # noqa: SLF001 (as PyTorch names it)
    _ATEN._cdist_backward.default: (0, 1, 2, 4),  # noqa: SLF001 (as PyTorch names it)
}
"""Which arguments an op copies if they are not contiguous."""


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
        result.untyped_storage().resize_(args[0].nbytes)
    if func in _LOSSES:
        return _grown_loss(*_LOSSES[func], args, kwargs, result)
    return _within(func, args, kwargs, is_on_cpu=is_on_cpu)


def _within(
    func: object, args: Sequence[Any], kwargs: Mapping[str, Any], *, is_on_cpu: bool
) -> int:
    if func in _WITHIN:
        place, count = _WITHIN[func]
        return int(count * args[place].nbytes)
    if func in _CONTIGUOUS:
        given = (args[place] for place in _CONTIGUOUS[func])
        return sum(one.nbytes for one in given if not one.is_contiguous())
    if func in _OF_ARGUMENTS:
        return _OF_ARGUMENTS[func](args, kwargs)
    return _OF_CPU[func](args) if is_on_cpu and func in _OF_CPU else 0


def _grown_loss(
    place: int,
    count: int,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    result: Any,  # noqa: ANN401 (what an op returns)
) -> int:
    """Give a number the room of all losses; return the [B] of the others."""
    if not _is_reduced(place, args, kwargs):
        return 0
    shape: Any = torch.broadcast_shapes(args[0].shape, args[1].shape)  # type: ignore[no-untyped-call]
    size = int(shape.numel()) * int(result.itemsize)
    result.untyped_storage().resize_(size)
    return count * size


def _within_logits(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """[B] Sigmoids or weights of all elements, and losses if they are reduced."""
    return int((1 + _is_reduced(4, args, kwargs)) * args[0].nbytes)


def _within_huber(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """[B] Losses of all elements, if they are reduced."""
    return int(_is_reduced(2, args, kwargs) * args[0].nbytes)


def _is_reduced(place: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return bool(args[place] if len(args) > place else kwargs.get("reduction", _MEAN))


def _within_angle(args: Sequence[Any], _: object) -> int:
    """[B] Complex angles, of which the result is the real part."""
    return int(args[0].is_complex() * args[0].nbytes)


def _within_bags(args: Sequence[Any]) -> int:
    """[B] Indices, sorted, and their bags if the forward pass did not keep them."""
    _, indices, _, bag_of_each = args[:4]
    return int((3 + (bag_of_each.numel() == 0)) * indices.nbytes)


def _within_product(factors: Sequence[Any]) -> int:
    """[B] Copies of factors whose rows and columns are in pieces, matrix by matrix."""
    return sum(
        one[0].nbytes if one.dim() > 2 and len(one) else one.nbytes  # noqa: PLR2004 (a batch of matrices)
        for one in factors
        if 1 not in one.stride()[-2:]
    )


_OF_ARGUMENTS: dict[Any, Callable[[Sequence[Any], Mapping[str, Any]], int]] = {
    _ATEN.binary_cross_entropy_with_logits.default: _within_logits,
    _ATEN.huber_loss.default: _within_huber,
    _ATEN.angle.default: _within_angle,
}
"""What ops hold that depends on several arguments."""
_OF_CPU: dict[Any, Callable[[Sequence[Any]], int]] = {
    _ATEN._embedding_bag_backward.default: _within_bags,  # noqa: SLF001 (as PyTorch names it)
    _ATEN.mm.default: lambda args: _within_product(args[:2]),
    _ATEN.addmm.default: lambda args: _within_product(args[1:3]),
    _ATEN.bmm.default: lambda args: _within_product(args[:2]),
    _ATEN.baddbmm.default: lambda args: _within_product(args[1:3]),
}
"""The same, of CPUs alone."""
