"""Recorded ops with the shapes of their tensors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

Dims = tuple[int, ...]

UPDATES = r"^aten::_(foreach_|amp_|fused_\w+_$)"
"""Names of ops that update parameters, wherever they are. Other fused ops, such as
`aten::_fused_rms_norm`, update nothing in place."""


@dataclass(frozen=True)
class Call:
    """An op with its shapes.

    `is_update`: it belongs to an optimizer, or stores a gradient. `is_copied`: it
    copies to the GPU. `collective` is the kind of its collective, if any. `results`
    are the shapes of what it returns, where an execution graph has them.
    """

    name: str
    arguments: tuple[tuple[Dims, ...], ...]
    values: tuple[str, ...] = ()
    is_update: bool = False
    is_copied: bool = False
    collective: str = ""
    results: tuple[Dims, ...] = ()

    @property
    def bare_name(self) -> str:
        """The name without its namespace and the suffix of in-place ops."""
        return re.sub(r"(?<=[^_])_$", "", self.name.rpartition("::")[2])

    @property
    def tensors(self) -> list[Dims]:
        """The shapes of all tensors, lists flattened."""
        return [dims for argument in self.arguments for dims in argument if dims]

    def dims(self, argument: int) -> Dims:
        """The shape of an argument; empty if it has none."""
        if argument >= len(self.arguments):
            return ()
        shapes = self.arguments[argument]
        return shapes[0] if len(shapes) == 1 else ()

    def numbers(self, argument: int) -> list[int]:
        """The integers in an argument's value."""
        if argument >= len(self.values):
            return []
        return [int(n) for n in re.findall(r"-?\d+", self.values[argument])]


def shapes(text: str | None) -> tuple[tuple[Dims, ...], ...]:
    """The shapes of each argument's tensors; one unless it is a list.

    None at all if one of them has a size that is no whole number, as in
    `prediction.op_signature`.

    >>> shapes("[[2, 3], [], [[4], [5]]]")
    (((2, 3),), (), ((4,), (5,)))
    >>> shapes('[[2, 3], ["?"]]')
    ()
    """
    found = []
    for one in json.loads(text) if text else []:
        is_list = isinstance(one, list) and one and isinstance(one[0], list)
        tensors = one if is_list else [one] if one else []
        if not all(map(_is_shape, tensors)):
            return ()
        found.append(tuple(map(tuple, tensors)))
    return tuple(found)


def _is_shape(dims: object) -> bool:
    return isinstance(dims, list) and all(type(n) is int and n >= 0 for n in dims)
