"""Checks for overflow find none: the values of their results are known.

The result of `isnan(x)` has a known value in each element. It is followed through the
ops by which code asks for it, such as `any`, `logical_not` and `sum`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracedb.from_code.fake_mesh import really

if TYPE_CHECKING:
    from collections.abc import Sequence

_EACH = "_tracedb_each"
"""The attribute of a tensor that has the value of each element."""
_CHECKS = {
    "isnan": False,
    "isinf": False,
    "isneginf": False,
    "isposinf": False,
    "isfinite": True,
}
FOUND = {
    getattr(place, name): found
    for name, found in _CHECKS.items()
    for place in (torch, torch.Tensor)
}
"""For each check, what it finds in every element."""
_KEPT = frozenset(
    (
        *("_to_copy", "alias", "clone", "detach", "expand", "permute", "select"),
        *("slice", "squeeze", "t", "transpose", "unsqueeze", "view", "_unsafe_view"),
    )
)
"""Ops that keep the value of each element, up to its type."""
_COMPUTED = frozenset(
    (
        *("all", "any", "amax", "amin", "max", "min", "mul", "eq", "ne", "gt", "lt"),
        *("ge", "le", "logical_and", "logical_not", "logical_or", "bitwise_and"),
        *("bitwise_not", "bitwise_or", "cat", "stack"),
    )
)
"""Ops whose result for equal elements does not depend on their number."""
_COUNTED = frozenset(("sum", "count_nonzero"))


class Checks:
    """Follows the results of checks through ops."""

    def __init__(self) -> None:
        """Start without any."""
        self._has_any = False

    def found(self, result: object, each: float) -> None:
        """Note the value of each element of a check's result."""
        if isinstance(result, torch.Tensor):
            self._has_any = True
            setattr(result, _EACH, each)

    def follow(
        self,
        func: Any,  # noqa: ANN401 (an overload of an op)
        args: tuple[object, ...],
        given: Sequence[torch.Tensor],
        result: object,
    ) -> None:
        """Note the values of an op's result, if they follow from its inputs."""
        if not self._has_any or not given or not isinstance(result, torch.Tensor):
            return
        known = [known_value(one) for one in given]
        if func._schema.is_mutable:  # noqa: SLF001 (it has no public name)
            vars(given[0]).pop(_EACH, None)
            return
        name = func._schema.name.partition("::")[2]  # noqa: SLF001
        if None in known or name not in _KEPT | _COMPUTED | _COUNTED:
            return
        each = known[0] or 0
        if name in _COUNTED:
            each *= given[0].numel() // max(result.numel(), 1)
        elif name in _COMPUTED:
            with really():
                each = func(*_small(args)).flatten()[0].item()
        setattr(result, _EACH, each)


def known_value(tensor: torch.Tensor) -> float | None:
    """The value of each element, if a check has found it."""
    found: float | None = getattr(tensor, _EACH, None)
    return found


def _small(values: Sequence[object]) -> list[Any]:
    """The arguments with one element for each tensor."""
    return [
        torch.full((1,) * one.dim(), known_value(one), dtype=one.dtype)  # type: ignore[arg-type]
        if isinstance(one, torch.Tensor)
        else _small(one)
        if isinstance(one, (list, tuple))
        else one
        for one in values
    ]
