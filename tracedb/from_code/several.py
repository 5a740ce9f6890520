"""Ops that PyTorch implements by several others, whatever the device.

No dispatch mode sees the others: they are dispatched within the op. Here they are
called one by one, as `parts.OF_SEVERAL` has them in graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._prims_common import suggest_memory_format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracedb.from_code.recorder import Recorder

_aten: Any = torch.ops.aten
_Sizes = list[int]


def parts(func: object, recorder: Recorder) -> Callable[..., object] | None:
    """A function that does the same by the ops that do the work, if there are any.

    What it makes is where the tensor is that it is given.
    """
    known = KNOWN.get(func)
    if known is None:
        return None

    def run(given: torch.Tensor, *args: object, **kwargs: object) -> object:
        with recorder.side.placing(on_gpu=recorder.holding(given).is_on_gpu):
            return known(given, *args, **kwargs)

    return recorder.recorded(run)


def _safe_softmax(
    given: torch.Tensor, dim: int, dtype: torch.dtype | None = None
) -> object:
    cast = _cast(given, given.dtype if dtype is None else dtype)
    made = _aten._softmax(cast, dim, False)  # noqa: SLF001, FBT003 (its only name)
    rows = _aten.all(_aten.isneginf(given), dim, True)  # noqa: FBT003
    zero = _aten.scalar_tensor(0.0, dtype=made.dtype)
    return _aten.where.self_out(rows, zero, made, out=made)


def _logsumexp(
    given: torch.Tensor,
    dim: _Sizes,
    keepdim: bool = False,  # noqa: FBT001, FBT002 (as PyTorch has it)
) -> object:
    is_exact = given.is_floating_point() or given.is_complex()
    given = given if is_exact else _cast(given, torch.get_default_dtype())
    largest = _aten.amax(torch.real(given), dim, True)  # noqa: FBT003
    kept = largest if keepdim else _aten.squeeze(largest, dim)
    _aten.masked_fill_(kept, _aten.eq(_aten.abs(kept), float("inf")), 0)
    powers = _aten.exp_(_aten.sub(given, largest))
    return _aten.add_(_aten.log_(_aten.sum(powers, dim, keepdim)), kept)


def _cast(given: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype is given.dtype:
        return given
    made: torch.Tensor = _aten._to_copy(given, dtype=dtype)  # noqa: SLF001 (its only name)
    return made


def _padded(given: torch.Tensor, pad: Sequence[int], value: float = 0.0) -> object:
    """Negative padding cuts; `pad` begins with the last dimension."""
    ends = zip(pad[::2], pad[1::2], strict=True)
    pairs = [(given.dim() - 1 - i, *both) for i, both in enumerate(ends)]
    kept = given
    sizes = list(given.shape)
    for dim, before, after in pairs:
        size = kept.shape[dim] + min(before, 0) + min(after, 0)
        if size < kept.shape[dim]:
            kept = _aten.narrow(kept, dim, max(-before, 0), size)
        sizes[dim] += before + after
    if all(before <= 0 and after <= 0 for _, before, after in pairs):
        return _aten.clone(kept)
    layout = suggest_memory_format(given)
    empty = _aten.empty.memory_format(sizes, dtype=given.dtype, memory_format=layout)
    made = _aten.fill_(empty, value)
    inner = made
    for dim, before, _ in pairs:
        if kept.shape[dim] < sizes[dim]:
            inner = _aten.narrow(inner, dim, max(before, 0), kept.shape[dim])
    _aten.copy_(inner, kept)
    return made


def _put_by(view: Any) -> Callable[..., object]:  # noqa: ANN401 (an op)
    """The gradient of a view: zeros, into which it is copied."""

    def put(gradient: torch.Tensor, sizes: _Sizes, *place: object) -> object:
        zeros = _aten.zeros(sizes, dtype=gradient.dtype)
        _aten.copy_(view(zeros, *place), gradient)
        return zeros

    return put


KNOWN: dict[Any, Callable[..., object]] = {
    _aten._safe_softmax.default: _safe_softmax,  # noqa: SLF001
    _aten.logsumexp.default: _logsumexp,
    _aten.constant_pad_nd.default: _padded,
    _aten.slice_backward.default: _put_by(_aten.slice),
    _aten.select_backward.default: _put_by(_aten.select),
    _aten.diagonal_backward.default: _put_by(_aten.diagonal),
}
