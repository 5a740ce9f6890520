"""Indices of the largest values are evenly spread, and so is what is routed by them.

`topk`, `argmax` or `multinomial` over 8 experts return each of them equally often. This
is followed through the ops by which code compares and counts such indices, up to masks,
of which the share of elements that are true is known.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracedb.from_code.fake_mesh import really
from tracedb.from_code.known import know

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHOICES = "_tracedb_choices"
"""The attribute of indices that has the number of values, which are equally often."""
_SHARE = "_tracedb_share"
"""The attribute of a mask that has the share of elements that are true."""
_LAST = -1
_INDICES: dict[str, tuple[int | None, int | None]] = {
    "topk": (2, _LAST),
    "argmax": (1, None),
    "max": (1, None),
    "multinomial": (None, _LAST),
}
"""Ops that choose: the argument that is the dimension, and its default."""
_KEPT = frozenset(
    (
        *("_to_copy", "alias", "clone", "detach", "expand", "permute", "select"),
        *("slice", "squeeze", "t", "transpose", "unsqueeze", "view", "_unsafe_view"),
        *("index", "index_select", "gather"),
    )
)
"""Ops whose results have values as often as their first argument does."""


def share(mask: torch.Tensor) -> float | None:
    """The share of a mask's elements that are true, if it is known."""
    found: float | None = _noted(mask, _SHARE)
    return found


def choices(indices: torch.Tensor) -> int | None:
    """How many values some indices have, each equally often, if it is known."""
    found: int | None = _noted(indices, _CHOICES)
    return found


def note_classes(indices: torch.Tensor, classes: torch.Tensor) -> None:
    """Let the classes that are made of indices (`one_hot`) be a mask of their share."""
    of = choices(indices)
    if of is not None:
        _note(classes, _SHARE, 1 / of)


def spread(count: int, bins: int) -> list[int]:
    """Evenly spread numbers.

    >>> spread(10, 4)
    [3, 3, 2, 2]
    """
    each, more = divmod(count, bins)
    return [each + (one < more) for one in range(bins)]


class Spread:
    """Follows indices and masks through ops."""

    def __init__(self) -> None:
        """Start without any."""
        self._has_any = False

    def follow(
        self,
        func: Any,  # noqa: ANN401 (an overload of an op)
        args: Sequence[Any],
        result: object,
    ) -> None:
        """Note what an op's result has of its inputs."""
        name = func._schema.name.partition("::")[2]  # noqa: SLF001 (it has no public name)
        if name in _INDICES:
            self._choose(name, args, result)
        elif self._has_any and args and isinstance(result, FakeTensor):
            if func._schema.is_mutable:  # noqa: SLF001
                return
            for attribute, value in _followed(name, args, result):
                _note(result, attribute, value)

    def _choose(self, name: str, args: Sequence[Any], result: object) -> None:
        at, default = _INDICES[name]
        dim = default if at is None or len(args) <= at else args[at]
        indices = result[-1] if isinstance(result, (tuple, list)) else result
        if not isinstance(dim, int) or not isinstance(indices, FakeTensor):
            return
        if not args[0].dim():
            return
        self._has_any = True
        _note(indices, _CHOICES, args[0].shape[dim])


def _note(tensor: torch.Tensor, attribute: str, value: float) -> None:
    setattr(tensor, attribute, (value, tensor._version))  # noqa: SLF001 (it has no public name)


def _noted(tensor: torch.Tensor, attribute: str) -> Any:  # noqa: ANN401
    """What was noted of a tensor, unless it was written to, maybe through a view."""
    value, version = getattr(tensor, attribute, (None, 0))
    return value if version == tensor._version else None  # noqa: SLF001


def _followed(
    name: str, args: Sequence[Any], result: FakeTensor
) -> Iterator[tuple[str, float]]:
    """What a result has of its inputs."""
    given = [one for one in args if isinstance(one, torch.Tensor)]
    if name in _KEPT and given:
        for attribute in (_CHOICES, _SHARE):
            value = _noted(given[0], attribute)
            if value is not None:
                yield attribute, value
    elif name == "eq":
        of = choices(given[0]) or choices(given[-1])
        if of is not None:
            yield _SHARE, 1 / of
    elif name == "sum" and given:
        part = share(given[0])
        if part is not None and result.dim() == 1 and result.numel():
            _count(result, round(part * given[0].numel()))
    else:
        combined = _combined(name, given, result)
        if combined is not None:
            yield _SHARE, combined


def _combined(
    name: str, given: Sequence[torch.Tensor], result: FakeTensor
) -> float | None:
    """The share of a mask that is made of masks."""
    known = [share(one) for one in given]
    shares = [one for one in known if one is not None]
    if not shares or None in known:
        return None
    if name in {"logical_not", "bitwise_not"}:
        return 1 - shares[0]
    if name in {"logical_or", "bitwise_or"}:
        return min(1.0, sum(shares))
    if name in {"logical_and", "bitwise_and"}:
        return prod(shares)
    if name == "any":
        # The indices of one example differ, so at most one of them is found.
        return min(1.0, shares[0] * given[0].numel() / max(result.numel(), 1))
    return None


def _count(result: FakeTensor, count: int) -> None:
    """Let counts by bins be known."""
    with really():
        known = torch.tensor(spread(count, result.numel()), dtype=result.dtype)
    know(result, known)
