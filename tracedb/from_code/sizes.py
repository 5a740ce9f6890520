"""Sizes as functions of the batch: numbers of ops and storages that grow with it.

What has numbers is taken apart into its form, which has to be the same at all batch
sizes, and the numbers in it, each of which has to be an affine function of the batch.
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
"""A form, and the numbers that are taken out of it."""

_NUMBER = re.compile(r"(-?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?\b)")
_CLOSE = 1e-9
"""Numbers that are no whole ones are equal but for so much of them."""


@dataclass(frozen=True)
class Size:
    """A number that is `value` at a batch size, and rises by `rise` every `run`."""

    batch: int
    value: int
    rise: int
    run: int

    def at(self, batch: int) -> int:
        """The number at a batch size; raises `ValueError` where it is no whole one."""
        risen, rest = divmod((batch - self.batch) * self.rise, self.run)
        if rest:
            raise ValueError(f"no whole number at {batch}")
        return self.value + risen


@dataclass(frozen=True)
class Part:
    """A number that is so much by the batch size, as the factor of a mean is."""

    whole: float

    def at(self, batch: int) -> float:
        """The number at a batch size."""
        return self.whole / batch


Function = Size | Part | int | float | None
"""A number of the batch; `None` where it is none, and nothing depends on it."""


def fitted(batches: Sequence[int], values: Sequence[Number]) -> Function:
    """The function that has these values at these batch sizes.

    Raises `ValueError` where whole numbers have none. Others are no sizes, and are not
    known then.
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


def valued(number: Function, batch: int) -> Number | None:
    """A number at a batch size."""
    return number.at(batch) if isinstance(number, (Size, Part)) else number


def apart(op: Dispatched) -> Parts:
    """An op's form, and the numbers in it: sizes of tensors, and in its arguments."""
    numbers: list[Number] = []
    forms = tuple(_apart(value, numbers) for value in (*op.arguments, *op.results))
    where = (op.is_on_gpu, op.is_view, op.transfer, op.writes, op.line)
    flags = (*where, op.called, op.awaits)
    return (op.name, len(op.arguments), *flags, *forms), tuple(numbers)


def _apart(value: Argument, numbers: list[Number]) -> Form:
    if isinstance(value, Shape):
        numbers += value.dims
        return len(value.dims), value.dtype, value.element_bytes
    if isinstance(value, list):
        return "list", *(_apart(one, numbers) for one in value)
    return text_apart(value, numbers)


def text_apart(text: str, numbers: list[Number]) -> Form:
    """A text without the numbers in it."""
    parts = _NUMBER.split(text)
    numbers += [int(n) if n.lstrip("-").isdigit() else float(n) for n in parts[1::2]]
    return tuple(parts[::2])


def together(op: Dispatched, numbers: Sequence[Number | None]) -> Dispatched:
    """An op of the same form with other numbers."""
    left = iter(numbers)
    arguments = [_together(value, left) for value in op.arguments]
    results = [_shape(value, left) for value in op.results]
    return replace(op, arguments=arguments, results=results)


def _together(value: Argument, numbers: Iterator[Number | None]) -> Argument:
    if isinstance(value, Shape):
        return _shape(value, numbers)
    if isinstance(value, list):
        return [_shape(one, numbers) for one in value]
    return text_together(value, numbers)


def _shape(shape: Shape, numbers: Iterator[Number | None]) -> Shape:
    dims = tuple(int(next(numbers) or 0) for _ in shape.dims)
    return replace(shape, dims=dims)


def text_together(text: str, numbers: Iterator[Number | None]) -> str:
    """A text with other numbers; a number that is not known leaves nothing of it."""
    parts = _NUMBER.split(text)
    others = [next(numbers) for _ in parts[1::2]]
    if None in others:
        return ""
    parts[1::2] = map(str, others)
    return "".join(parts)


def holding_apart(holding: Holding) -> Parts:
    """A storage's form, and its sizes."""
    form = replace(holding, size_bytes=0, dims=())
    fields = tuple(vars(form).values())
    return fields, (holding.size_bytes, *holding.dims)
