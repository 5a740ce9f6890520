"""A number that is unknown without a real run, such as `loss.item()`."""

from __future__ import annotations

from typing import NoReturn, Self

from tracedb.errors import EstimateError
from tracedb.from_code import place


def refuse(what: str) -> NoReturn:
    """Raise `EstimateError` with the line of code that depends on a value."""
    raise EstimateError(
        f"{place.of_caller()}: {what} depends on a value that is known only in a real "
        "run; remove it from the step to estimate"
    )


_PASSING = "torch/distributions/"
"""PyTorch's own code whose tests are checks of arguments, which pass."""


class Unknown(float):
    """NaN that can be passed on and printed, but not compared or tested.

    PyTorch's own code may test it, as a gradient scaler does to find overflow: for it,
    every test is false, but for checks of arguments (of distributions), which pass.

    >>> f"{Unknown() * 2:.1f}"
    'nan'
    """

    __slots__ = ()

    def __new__(cls, _value: object = None) -> Self:
        """Make one from any value."""
        return super().__new__(cls, "nan")

    def __bool__(self) -> bool:
        """Refuse a truth test."""
        return self._tested("a condition")

    def _compared(self, _other: object) -> bool:
        return self._tested("a comparison")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compared
    __hash__ = float.__hash__

    def __int__(self) -> int:
        """Refuse a conversion to an integer."""
        return refuse("a whole number")

    __trunc__ = __index__ = __floor__ = __ceil__ = __int__

    def __round__(self, digits: int | None = None) -> Unknown:  # type: ignore[override]
        """Remain unknown, but refuse to become an integer."""
        return Unknown() if digits is not None else refuse("a whole number")

    def __format__(self, form: str) -> str:
        """`nan`, also where the code expects an integer."""
        return float.__format__(self, form.removesuffix("d"))

    def __divmod__(self, _other: object) -> tuple[Unknown, Unknown]:
        """Both parts are unknown."""
        return Unknown(), Unknown()

    def _combined(self, *_others: object) -> Unknown:
        return Unknown()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _combined
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _combined
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _combined
    __neg__ = __abs__ = __pos__ = _combined

    def _tested(self, what: str) -> bool:
        caller = place.of_torch()
        return _PASSING in caller if caller else refuse(what)
