"""What collectives make of known values, where all ranks give the same."""

from __future__ import annotations

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

_REDUCED: dict[Any, Callable[[torch.Tensor, int], torch.Tensor]] = {
    distributed.ReduceOp.SUM: lambda one, ranks: one * ranks,
    distributed.ReduceOp.PRODUCT: lambda one, ranks: one**ranks,
    **dict.fromkeys(
        (
            *(distributed.ReduceOp.AVG, distributed.ReduceOp.MAX),
            *(distributed.ReduceOp.MIN, distributed.ReduceOp.BAND),
            distributed.ReduceOp.BOR,
        ),
        lambda one, _ranks: one,
    ),
}
"""What reductions make of the same number from each of several ranks."""


_MOVED: dict[str, Callable[[Values, int, int], Values]] = {
    "broadcast": lambda given, _, __: [one.clone() for one in given],
    "scatter": lambda given, rank, _: given[rank : rank + 1],
    "_allgather_base": lambda given, _, ranks: [
        torch.cat([one.flatten()] * ranks) for one in given
    ],
    **dict.fromkeys(
        ("allgather", "gather"),
        lambda given, _, ranks: [one.clone() for one in given for _ in range(ranks)],
    ),
}
"""What collectives make that only move values."""


def pass_on(
    kind: str,
    given: Sequence[torch.Tensor],
    made: Sequence[torch.Tensor],
    options: Sequence[object],
    place: tuple[int, int],
) -> None:
    """Let results of a collective have their values, or none where they are unknown.

    `place` is the rank in the group, and its number of ranks.
    """
    known = [one.constant for one in given if isinstance(one, FakeTensor)]
    values = [one for one in known if one is not None]
    found: Values | None = None
    with really():
        if len(values) == len(given):
            found = _made(kind, values, options, place)
    if found is None or [v.numel() for v in found] != [m.numel() for m in made]:
        found = []
    for one, its_values in zip_longest(made, found):
        learn(one, its_values)


def _made(
    kind: str, given: Values, options: Sequence[object], place: tuple[int, int]
) -> Values | None:
    """The values of the results; None for a kind or a reduction that is not known."""
    rank, ranks = place
    if kind == "all_to_all":
        return _exchanged(given, options, place)
    if kind in _MOVED:
        return _MOVED[kind](given, rank, ranks)
    reduced = _REDUCED.get(next((_op(o) for o in options if _op(o) is not None), None))
    if reduced is None:
        return None
    if kind == "reduce_scatter":
        given = given[rank : rank + 1]
    if kind == "_reduce_scatter_base":
        given = [one.flatten().chunk(ranks)[rank] for one in given]
    return [reduced(one, ranks) for one in given]


def _op(options: object) -> Any:  # noqa: ANN401 (it has no public name)
    """The kind of reduction among the options of a collective."""
    found = getattr(options, "reduceOp", None)
    return getattr(found, "op", found)


def _exchanged(
    given: Values, options: Sequence[object], place: tuple[int, int]
) -> Values | None:
    """Each rank's part for this one: all are alike; None for parts of other sizes."""
    rank, ranks = place
    if len(given) == ranks > 1:
        return [given[rank].clone() for _ in range(ranks)]
    if any(isinstance(one, list) and one for one in options) or len(given) != 1:
        return None
    if given[0].shape[0] % ranks:
        return None
    return [torch.cat([given[0].chunk(ranks)[rank]] * ranks)]
