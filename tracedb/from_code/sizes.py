"""Sizes of ops and storages as functions of the batch size.

An op or storage is split into its form, which must be equal at all batch sizes, and its
numbers, each of which must be an affine function of the batch size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tracedb.from_code.ops import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracedb.from_code.memory import Holding
    from tracedb.from_code.ops import Argument, Dispatched

Number = int | float
Form = tuple[object, ...]
Parts = tuple[Form, tuple[Number, ...]]
"""A form, and the numbers removed from it."""

_NUMBER = re.compile(r"(-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b)")
_CLOSE = 1e-9
"""Relative tolerance within which floats are equal."""


@dataclass(frozen=True)
class Size:
    """A number that is `value` at `batch` and grows by `rise` every `run` samples."""

    batch: int
    value: int
    rise: int
    run: int

    def at(self, batch: int) -> int:
        """The number at a batch size; raises `ValueError` where it is not whole."""
        risen, rest = divmod((batch - self.batch) * self.rise, self.run)
        if rest:
            raise ValueError(f"no whole number at {batch}")
        return self.value + risen


@dataclass(frozen=True)
class Part:
    """A number that is `whole` divided by the batch size, such as a mean's factor."""

    whole: float

    def at(self, batch: int) -> float:
        """The number at a batch size."""
        return self.whole / batch


Function = Size | Part | int | float | None
"""A number as a function of the batch size; `None` if unknown and without effect."""


def fitted(batches: Sequence[int], values: Sequence[Number]) -> Function:
    """The function that has these values at these batch sizes.

    Raises `ValueError` where integers have none; where floats have none, it is `None`.
    """
    if len(set(values)) == 1:
        return values[0]
    first, second = values[:2]
    if isinstance(first, int) and isinstance(second, int):
        size = Size(batches[0], first, second - first, batches[1] - batches[0])
        pairs = zip(batches, values, strict=True)
        if any(size.at(batch) != value for batch, value in pairs):
            raise ValueError("not affine")
        return size
    wholes = [value * batch for value, batch in zip(values, batches, strict=True)]
    is_part = max(wholes) - min(wholes) <= _CLOSE * max(map(abs, wholes))
    return Part(wholes[0]) if is_part else None


def evaluate(number: Function, batch: int) -> Number | None:
    """The value of a function at a batch size."""
    return number.at(batch) if isinstance(number, (Size, Part)) else number


def split_op(op: Dispatched) -> Parts:
    """An op's form, and its numbers: tensor sizes, and numbers in its arguments."""
    numbers: list[Number] = []
    forms = tuple(_split(value, numbers) for value in (*op.arguments, *op.results))
    where = (op.is_on_gpu, op.is_view, op.transfer, op.writes, op.line)
    flags = (*where, op.called, op.awaits, op.stream, op.ordering)
    return (op.name, len(op.arguments), *flags, *forms), tuple(numbers)


def _split(value: Argument, numbers: list[Number]) -> Form:
    if isinstance(value, Shape):
        numbers += value.dims
        return len(value.dims), value.dtype, value.element_bytes
    if isinstance(value, list):
        return "list", *(_split(one, numbers) for one in value)
    return split_text(value, numbers)


def split_text(text: str, numbers: list[Number]) -> Form:
    """A text without its numbers, which are appended to `numbers`."""
    parts = _NUMBER.split(text)
    numbers += [int(n) if n.lstrip("-").isdigit() else float(n) for n in parts[1::2]]
    return tuple(parts[::2])


def join_op(op: Dispatched, numbers: Sequence[Number | None]) -> Dispatched:
    """The op with other numbers in the same form."""
    left = iter(numbers)
    arguments = [_joined(value, left) for value in op.arguments]
    results = [_shape(value, left) for value in op.results]
    return replace(op, arguments=arguments, results=results)


def _joined(value: Argument, numbers: Iterator[Number | None]) -> Argument:
    if isinstance(value, Shape):
        return _shape(value, numbers)
    if isinstance(value, list):
        return [_shape(one, numbers) for one in value]
    return join_text(value, numbers)


def _shape(shape: Shape, numbers: Iterator[Number | None]) -> Shape:
    dims = tuple(int(next(numbers) or 0) for _ in shape.dims)
    return replace(shape, dims=dims)


def join_text(text: str, numbers: Iterator[Number | None]) -> str:
    """The text with other numbers; empty if a number is unknown."""
    parts = _NUMBER.split(text)
    others = [next(numbers) for _ in parts[1::2]]
    if None in others:
        return ""
    parts[1::2] = map(str, others)
    return "".join(parts)


def split_holding(holding: Holding) -> Parts:
    """The form and the sizes of an allocation."""
    form = replace(holding, size_bytes=0, dims=())
    fields = tuple(vars(form).values())
    return fields, (holding.size_bytes, *holding.dims)
