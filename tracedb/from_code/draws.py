"""Random numbers that code draws one or two at a time, to choose something by them.

They are in the middle of their range, so that all runs of a step are alike: crops are
taken from the middle, and what happens rarely does not happen. Of these, and of other
numbers that are known by an assumption, the answer tells those that code reads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracedb.from_code import place
from tracedb.from_code.fake_mesh import really
from tracedb.from_code.known import know

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracedb.from_code.unknown import Assumptions

_ATEN: Any = torch.ops.aten
_READ = "_tracedb_read"
"""The attribute of a tensor that has what to call if its value is read."""
_MOST = 2
"""How many numbers are drawn at once."""
_MIDDLE: dict[Any, Callable[[Sequence[Any]], float]] = {
    _ATEN.rand.default: lambda _: 0.5,
    _ATEN.randn.default: lambda _: 0.0,
    _ATEN.randint.default: lambda given: given[0] // 2,
    _ATEN.randint.low: lambda given: (given[0] + given[1]) // 2,
    _ATEN.random_.to: lambda given: given[1] // 2,
    getattr(_ATEN.random_, "from"): lambda given: (given[1] + given[2]) // 2,
    _ATEN.uniform_.default: lambda given: (
        sum((*given[1:], *(0.0, 1.0)[len(given) - 1 :])) / 2
    ),
    _ATEN.normal_.default: lambda given: (*given[1:], 0.0)[0],
}
"""The middle of the range, by the arguments."""


class Draws:
    """Makes random numbers, and follows what is computed of them."""

    def __init__(self, told: Assumptions) -> None:
        """Take where assumptions go."""
        self._told = told
        self._has_any = False

    def draw(self, func: Any, args: tuple[Any, ...], made: object) -> None:  # noqa: ANN401 (an overload)
        """Let few random numbers have a known value."""
        middle = _MIDDLE.get(func)
        if middle is None or not isinstance(made, FakeTensor) or made.numel() > _MOST:
            return
        value = middle(args)
        with really():
            known = torch.full(made.shape, value, dtype=made.dtype)
        know(made, known)
        line = (
            f"{place.of_caller()}: a random number is assumed to be {value:g}, in the "
            "middle of its range"
        )
        self.assume(made, partial(self._told.tell, line))

    def assume(self, tensor: torch.Tensor, when_read: Callable[[], None]) -> None:
        """Note that a tensor is known by an assumption: what to call if it is read."""
        self._has_any = True
        setattr(tensor, _READ, when_read)

    def follow(self, given: Sequence[torch.Tensor], result: object) -> None:
        """Note that an op's results are known by what was assumed."""
        drawn = [one for one in given if hasattr(one, _READ)] if self._has_any else []
        for one in result if isinstance(result, (tuple, list)) else (result,):
            if drawn and isinstance(one, FakeTensor) and one.constant is not None:
                setattr(one, _READ, getattr(drawn[0], _READ))

    def tell(self, tensor: torch.Tensor) -> None:
        """Tell what was assumed where code reads a value."""
        when_read = getattr(tensor, _READ, None)
        if when_read is not None:
            when_read()
