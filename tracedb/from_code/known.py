"""Fake tensors whose values are known: those made from Python's own numbers.

PyTorch's fake tensors keep such values in `constant` for as long as nothing unknown is
written to them, and compute with them. It knows only what `torch.tensor` makes; here
are whole numbers that are filled in (`zeros`, `full`, `fill_`), counted (`arange`) or
copied (`copy_`): sizes come from these. Others may stand for data (`torch.ones(8, 3)`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracedb.from_code.fake_mesh import really
from tracedb.from_code.tensors import tensors_of

KNOWN = 4_096
"""How many elements a tensor of known values has at most."""

_ATEN: Any = torch.ops.aten
_VALUES: dict[Any, int | float] = {
    _ATEN.zeros.default: 0,
    _ATEN.zeros_like.default: 0,
    _ATEN.new_zeros.default: 0,
    _ATEN.zero_.default: 0,
    _ATEN.ones.default: 1,
    _ATEN.ones_like.default: 1,
    _ATEN.new_ones.default: 1,
}
"""What each of these ops fills a tensor with."""
_FILLING = frozenset(
    (
        _ATEN.full.default,
        _ATEN.full_like.default,
        _ATEN.new_full.default,
        _ATEN.fill.Scalar,
        _ATEN.fill_.Scalar,
    )
)
"""Ops that fill a tensor with their argument `fill_value`, or `value`."""
_COUNTING = frozenset(
    (
        _ATEN.arange.default,
        _ATEN.arange.start,
        _ATEN.arange.start_step,
        _ATEN.linspace.default,
        _ATEN.eye.default,
        _ATEN.eye.m,
        _ATEN.scalar_tensor.default,
    )
)
"""Ops whose results follow from numbers alone."""
_COPY: Any = _ATEN.copy_.default
_FROM_REAL = ("aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift")
"""Ops that `torch.tensor` ends with, whose argument is a real tensor."""
_PLACING = ("device", "pin_memory", "layout")


def know(tensor: torch.Tensor, values: torch.Tensor | None) -> None:
    """Let a fake tensor have known values, until it is written to."""
    if not isinstance(tensor, FakeTensor):
        return
    tensor.constant = values
    if values is not None:
        tensor.fake_mode.fake_tensor_converter.add_constant_storage_mapping(tensor)


def view_of_known(
    func: Any,  # noqa: ANN401 (an overload)
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> object:
    """A view of a known tensor, in the tensor's memory; NotImplemented for other ops.

    PyTorch's fake tensors give it memory of its own.
    """
    given = args[0] if func.is_view and args else None
    if not isinstance(given, FakeTensor) or given.constant is None:
        return NotImplemented
    values, given.constant = given.constant, None
    try:
        made = func(*args, **kwargs)
    finally:
        given.constant = values
    with really():
        seen = func(values, *map(_formed, args[1:]), **kwargs)
    for one, its_values in zip(tensors_of(made), tensors_of(seen), strict=True):
        know(one, its_values)
    return made


def _formed(value: object) -> object:
    """A real tensor of a fake one's form, of which alone a view depends (`view_as`)."""
    if not isinstance(value, FakeTensor):
        return value
    return torch.empty((), dtype=value.dtype).expand(tuple(map(int, value.shape)))


def learn(tensor: torch.Tensor, values: torch.Tensor | None) -> None:
    """Write known values to a fake tensor and what shares its memory; None: unknown."""
    if not isinstance(tensor, FakeTensor):
        return
    before = tensor.constant
    with really():
        if values is not None:
            values = values.reshape(tuple(map(int, tensor.shape))).to(tensor.dtype)
        if before is None:
            know(tensor, values)
        elif values is not None:
            before.copy_(values)
        else:
            tensor.fake_mode.fake_tensor_converter.invalidate_constant_aliases(before)
            know(tensor, None)


def know_made(
    func: Any,  # noqa: ANN401 (an overload)
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    made: object,
) -> None:
    """Let the result of an op that fills, counts or copies have its values.

    Of other ops, results are known if all arguments are, and have values at all: fake
    implementations make some of them by `new_empty` of a known argument.
    """
    values = None
    if isinstance(made, FakeTensor) and _may_be_sizes(made):
        with really():
            values = _values(func, args, kwargs, made)
        if values is not None:
            know(made, values)
    found = tensors_of(made) if values is None else ()
    known = [one for one in found if _is_known(one)]
    if known and not _follows(func, (args, kwargs)):
        for one in known:
            know(one, None)


def _may_be_sizes(tensor: torch.Tensor) -> bool:
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return is_whole and tensor.dtype is not torch.bool and tensor.numel() <= KNOWN


def _follows(func: Any, given: object) -> bool:  # noqa: ANN401
    """Whether the values of an op's results follow from those of its arguments."""
    name = func._schema.name  # noqa: SLF001 (it has no public name)
    if name in _FROM_REAL:
        return True
    return "empty" not in name and all(map(_is_known, tensors_of(given)))


def _is_known(tensor: torch.Tensor) -> bool:
    """Whether it has known values or, if real, may have: numbers from a loader."""
    if isinstance(tensor, FakeTensor):
        return tensor.constant is not None
    return not tensor.is_floating_point()


def _values(
    func: Any,  # noqa: ANN401
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    made: FakeTensor,
) -> torch.Tensor | None:
    """What an op makes of numbers; None for all other ops."""
    if func in _COUNTING:
        given = {name: one for name, one in kwargs.items() if name not in _PLACING}
        counted: torch.Tensor = func(*args, **given)
        return counted
    if func is _COPY:
        source = args[1].constant if isinstance(args[1], FakeTensor) else None
        return (
            None if source is None else source.to(made.dtype).expand(made.shape).clone()
        )
    if func in _FILLING:
        named = [kwargs[name] for name in ("fill_value", "value") if name in kwargs]
        return torch.full(made.shape, (*args, *named)[-1], dtype=made.dtype)
    if func in _VALUES:
        return torch.full(made.shape, _VALUES[func], dtype=made.dtype)
    return None
