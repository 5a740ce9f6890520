"""Arguments and results in execution graphs, as the profiler would list them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracedb.from_code.attention_way import Operand
from tracedb.from_code.ops import Argument, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracedb.from_code.graph import Values

_HOST_DEVICES = ("cpu", "meta", "")
_TYPES = {"long": "long int", "short": "short int", "char": "signed char"}
"""Type names of some releases, and the profiler's."""
_TENSOR = 6
"""Number of values that identify a tensor."""


def is_off_host(tensor: Sequence[Any]) -> bool:
    """Whether a tensor is on a device other than the CPU."""
    return str(tensor[5]).partition(":")[0] not in _HOST_DEVICES


def is_tensor(one: object) -> bool:
    """Whether a recorded value is a tensor."""
    return isinstance(one, list) and len(one) == _TENSOR and isinstance(one[-1], str)


def recorded_tensors(values: Iterable[Values]) -> Iterator[list[Any]]:
    """Recorded tensors: id, storage, offset, elements, element size, device."""
    for value in values:
        if value.type.startswith("Tensor("):
            if _is_there(value):
                yield value.value
        elif value.type.startswith("GenericList[") and "Tensor(" in value.type:
            yield from _nested(value.value)


def _nested(values: Any) -> Iterator[list[Any]]:  # noqa: ANN401 (as JSON has it)
    """The tensors in nested lists."""
    for one in values:
        if not isinstance(one, list):
            continue
        if is_tensor(one):
            yield one
        else:
            yield from _nested(one)


def _is_there(value: Values) -> bool:
    """Whether a tensor is defined."""
    is_full = isinstance(value.value, list) and len(value.value) == _TENSOR
    return is_full and "nullptr" not in value.type


def tensors(values: Iterable[Values]) -> Iterator[tuple[object, Shape]]:
    """The tensors' storages and shapes."""
    for value in values:
        one = [value]
        yield from zip((t[1] for t in recorded_tensors(one)), shapes(one), strict=False)


def shapes(values: Iterable[Values]) -> Iterator[Shape]:
    """The shapes of tensors, lists flattened."""
    for value in values:
        found = _argument_of(value)
        if isinstance(found, Shape):
            yield found
        elif isinstance(found, list):
            yield from found


def arguments(values: Iterable[Values]) -> Iterator[Argument]:
    """Arguments as the profiler lists them."""
    known: set[tuple[Any, ...]] = set()
    for value in values:
        found = _argument_of(value)
        if isinstance(found, Shape):
            # Its storage, where it begins in it, and its elements.
            memory = tuple(value.value[1:4])
            found = replace(found, is_again=memory in known)
            known.add(memory)
        yield found


def operand(value: Values) -> Operand | None:
    """A tensor with its strides, if they are recorded; None if there is none."""
    found = _argument_of(value)
    if not isinstance(found, Shape):
        return None
    strides = tuple(map(int, value.strides))
    return Operand(found.dims, found.dtype, found.element_bytes, strides)


def _argument_of(value: Values) -> Argument:
    if value.type.startswith("Tensor("):
        if not _is_there(value):
            return ""
        return _shape(value.value, value.dims, value.type)
    if value.type.startswith("GenericList[") and "Tensor(" in value.type:
        return list(_listed(value))
    return "" if value.value in (None, "<None>") else str(value.value)


def _listed(value: Values) -> Iterator[Shape]:
    """The shapes of the tensors in a list, nested lists flattened."""
    kinds = _kinds(value.type)
    flat = list(_nested(value.value))
    dims = list(_flat_dims(value.value, value.dims))
    for one, sizes, kind in zip(flat, dims, kinds, strict=False):
        yield _shape(one, sizes, kind)


def _flat_dims(values: Any, dims: Any) -> Iterator[Any]:  # noqa: ANN401
    for one, sizes in zip(values, dims, strict=False):
        if not isinstance(one, list):
            continue
        if is_tensor(one):
            yield sizes
        else:
            yield from _flat_dims(one, sizes)


def _kinds(text: str) -> list[str]:
    return ["Tensor(" + part for part in text.split("Tensor(")[1:]]


def _shape(tensor: list[Any], dims: list[int], kind: str) -> Shape:
    name = kind.removeprefix("Tensor(").partition(")")[0]
    return Shape(tuple(map(int, dims)), _TYPES.get(name, name), int(tensor[4]))
