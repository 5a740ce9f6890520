"""Lazy modules, whose tensors become fake ones once their sizes are known.

PyTorch turns an uninitialized tensor into a usual one, which a fake one cannot do. So
uninitialized tensors are real, and empty; when a module finds its sizes, fake ones take
their places.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

from tracedb.errors import EstimateError
from tracedb.from_code import place
from tracedb.from_code.changed import changed
from tracedb.from_code.fake_mesh import really

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LIKE = "_tracedb_like"
"""The attribute of an uninitialized tensor that has an empty fake one like it."""
_ARGUMENTS = ("requires_grad", "device", "dtype")
_infer = LazyModuleMixin._infer_parameters  # noqa: SLF001 (it has no public name)


def convert(tensor: torch.Tensor, by: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Note the device and the type of an uninitialized tensor of a model."""
    like = by(getattr(tensor, _LIKE))
    setattr(tensor, _LIKE, like)
    with really():
        tensor.data = torch.empty(0, dtype=like.dtype)


def refuse_stale(parameters: Iterable[torch.Tensor]) -> None:
    """Raise `EstimateError` if parameters of an optimizer are not the model's."""
    if any(hasattr(parameter, _LIKE) for parameter in parameters):
        raise EstimateError(
            f"{place.of_caller()}: the optimizer was made before lazy modules knew "
            "their sizes; run the model once before it is made"
        )


def _made(make: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Make an empty real tensor, which knows a fake one."""

    def made(kind: type, *args: object, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401
        kwargs |= dict(zip(_ARGUMENTS, args, strict=False))
        like = torch.empty(0, device=kwargs.pop("device", None), dtype=kwargs["dtype"])
        with really():
            found: torch.Tensor = make(kind, **kwargs)
        setattr(found, _LIKE, like)
        return found

    return made


def _inferred(
    lazy: Any,  # noqa: ANN401 (a module with a mixin)
    module: nn.Module,
    *args: object,
) -> object:
    """Find the sizes, and make fake tensors of them."""
    given = [
        *module.named_parameters(recurse=False),
        *module.named_buffers(recurse=False),
    ]
    names = [name for name, tensor in given if is_lazy(tensor)]
    with really():
        result: object = _infer(lazy, module, *args)
    for name in names:
        tensor = getattr(module, name)
        fake: torch.Tensor = getattr(tensor, _LIKE).new_empty(tensor.shape)
        if isinstance(tensor, nn.Parameter):
            fake = nn.Parameter(fake, tensor.requires_grad)
        setattr(module, name, fake)
    return result


@contextmanager
def lazy_modules() -> Iterator[None]:
    """Let lazy modules have fake tensors within the block."""
    uninitialized = (UninitializedParameter, UninitializedBuffer)
    parameter, buffer = (_made(kind.__new__) for kind in uninitialized)
    with (
        changed(UninitializedParameter, {"__new__": parameter}),
        changed(UninitializedBuffer, {"__new__": buffer}),
        changed(LazyModuleMixin, {"_infer_parameters": _inferred}),
    ):
        yield
