"""What collectives make of known values: each rank's own, or the same of all.

Where only one rank runs, all are assumed to give the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensor

from tracedb.from_code.fake_mesh import really
from tracedb.from_code.known import learn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Values = list[torch.Tensor]
_OP: Any = distributed.ReduceOp


@dataclass(frozen=True)
class Given:
    """What a rank gives to a collective, and to whom: `sizes` of an all-to-all."""

    values: Values
    sizes: tuple[int, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process by numbers, without shared memory."""
        with really():
            plain = [(one.tolist(), one.dtype) for one in self.values]
        return _given, (plain, self.sizes)


def _given(plain: list[tuple[Any, torch.dtype]], sizes: tuple[int, ...]) -> Given:
    with really():
        return Given([torch.tensor(one, dtype=kind) for one, kind in plain], sizes)


@dataclass(frozen=True)
class Place:
    """A rank's number in its group, and how many ranks there are."""

    rank: int
    ranks: int


_ALIKE: dict[Any, Callable[[torch.Tensor, int], torch.Tensor]] = {
    _OP.SUM: lambda one, ranks: one * ranks,
    _OP.PRODUCT: lambda one, ranks: one**ranks,
    **dict.fromkeys(
        (_OP.AVG, _OP.MAX, _OP.MIN, _OP.BAND, _OP.BOR), lambda one, _ranks: one
    ),
}
"""What reductions make of the same number from each of several ranks."""
_TWO: dict[Any, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    _OP.SUM: torch.add,
    _OP.PRODUCT: torch.mul,
    _OP.MAX: torch.maximum,
    _OP.MIN: torch.minimum,
    _OP.BAND: torch.bitwise_and,
    _OP.BOR: torch.bitwise_or,
}
"""What reductions make of two numbers."""


def given_to(given: Sequence[torch.Tensor], options: Sequence[object]) -> Given | None:
    """The known values of what this rank gives; None if some are unknown."""
    known = [one.constant for one in given if isinstance(one, FakeTensor)]
    values = [one for one in known if one is not None]
    if not values or len(values) != len(given):
        return None
    lists = [one for one in options if isinstance(one, list) and one]
    is_of_sizes = bool(lists) and all(isinstance(size, int) for size in lists[-1])
    return Given(values, tuple(lists[-1]) if is_of_sizes else ())


def pass_on(
    kind: str,
    each: Sequence[Given | None],
    made: Sequence[torch.Tensor],
    options: Sequence[object],
    place: Place,
) -> bool:
    """Let results of a collective have their values, or none where they are unknown.

    `each` is what each rank gives, or one element if all ranks give the same. Return
    whether the values are known.
    """
    found: Values | None = None
    root = root_of(kind, options)
    if root is not None and len(each) > 1:
        each = [each[root]]
    given = [one for one in each if one is not None]
    with really():
        if len(given) == len(each):
            found = _made(kind, given, options, place)
    if found is None or [v.numel() for v in found] != [m.numel() for m in made]:
        found = []
    for one, its_values in zip_longest(made, found):
        learn(one, its_values)
    return bool(found)


def root_of(kind: str, options: Sequence[object]) -> int | None:
    """The only rank that gives something; None if all do."""
    if kind not in {"broadcast", "scatter"}:
        return None
    roots = [getattr(one, "rootRank", None) for one in options]
    return next((root for root in roots if root is not None), 0)


def _made(
    kind: str, each: list[Given], options: Sequence[object], place: Place
) -> Values | None:
    """The values of the results; None for a kind or a reduction that is not known."""
    own = each[0].values
    if kind == "broadcast":
        return [one.clone() for one in own]
    if kind == "scatter":
        return own[place.rank : place.rank + 1]
    if kind == "all_to_all":
        return _exchanged(each, place)
    if kind in {"allgather", "gather", "_allgather_base"}:
        everyone = each if len(each) > 1 else each * place.ranks
        rows = [[one.values[i] for one in everyone] for i in range(len(own))]
        if kind == "_allgather_base":
            return [torch.cat([one.flatten() for one in row]) for row in rows]
        return [one.clone() for row in rows for one in row]
    if kind == "reduce_scatter":
        each = [Given(one.values[place.rank : place.rank + 1]) for one in each]
    if kind == "_reduce_scatter_base":
        each = [Given([_part(v, place) for v in one.values]) for one in each]
    return _reduced(each, options, place)


def _part(values: torch.Tensor, place: Place) -> torch.Tensor:
    return values.flatten().chunk(place.ranks)[place.rank]


def _reduced(
    each: list[Given], options: Sequence[object], place: Place
) -> Values | None:
    kind = next((_op(one) for one in options if _op(one) is not None), None)
    if kind not in _ALIKE:
        return None
    if len(each) == 1:
        return [_ALIKE[kind](one, place.ranks) for one in each[0].values]
    two = _TWO.get(_OP.SUM if kind == _OP.AVG else kind)
    if two is None:
        return None
    columns = zip(*(one.values for one in each), strict=True)
    found = [reduce(two, column) for column in columns]
    return [one // place.ranks for one in found] if kind == _OP.AVG else found


def _op(options: object) -> Any:  # noqa: ANN401 (it has no public name)
    """The kind of reduction among the options of a collective."""
    found = getattr(options, "reduceOp", None)
    return getattr(found, "op", found)


def _exchanged(each: list[Given], place: Place) -> Values | None:
    """Each rank's part for this one; None for parts of unknown sizes."""
    everyone = each if len(each) > 1 else each * place.ranks
    parts = [_for_one(one, place) for one in everyone]
    found = [one for one in parts if one is not None]
    if len(found) < len(parts):
        return None
    is_listed = len(each[0].values) == place.ranks > 1
    return [one.clone() for one in found] if is_listed else [torch.cat(found)]


def _for_one(given: Given, place: Place) -> torch.Tensor | None:
    """What a rank sends to this one."""
    values = given.values
    if len(values) == place.ranks > 1:
        return values[place.rank]
    if len(values) != 1:
        return None
    if given.sizes:
        before = sum(given.sizes[: place.rank])
        return values[0].narrow(0, before, given.sizes[place.rank])
    if values[0].shape[0] % place.ranks:
        return None
    return values[0].chunk(place.ranks)[place.rank]
