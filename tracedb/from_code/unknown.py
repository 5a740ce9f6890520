"""A number that only a real run would know, as `loss.item()` gives it."""

from __future__ import annotations

from typing import NoReturn, Self

from tracedb.errors import EstimateError
from tracedb.from_code import place


def refuse(what: str) -> NoReturn:
    """Raise `EstimateError` for what depends on a value, with the line that asks."""
    raise EstimateError(
        f"{place.of_caller()}: {what} depends on a value that is known only in a real "
        "run; remove it from the step to estimate"
    )


class Unknown(float):
    """Not a number, which can be passed on and printed, but not decided by.

    PyTorch's own code may decide by it, as a gradient scaler does that looks for
    overflow: for it, nothing is the case.

    >>> f"{Unknown() * 2:.1f}"
    'nan'
    """

    __slots__ = ()

    def __new__(cls, _value: object = None) -> Self:
        """Make one, whatever it is made of."""
        return super().__new__(cls, "nan")

    def __bool__(self) -> bool:
        """Tell whether it is 0, which is not known."""
        return self._decided("a condition")

    def _compared(self, _other: object) -> bool:
        return self._decided("a comparison")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compared
    __hash__ = float.__hash__

    def __int__(self) -> int:
        """Give it as a whole number, which it is not."""
        return refuse("a whole number")

    __trunc__ = __index__ = __int__

    def _combined(self, *_others: object) -> Unknown:
        return Unknown()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _combined
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _combined
    __neg__ = __abs__ = __pos__ = _combined

    def _decided(self, what: str) -> bool:
        return False if place.is_torch_calling() else refuse(what)
