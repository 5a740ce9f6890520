"""A number that is unknown without a real run, such as `loss.item()`."""

from __future__ import annotations

import linecache
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, Self

from tracedb.errors import EstimateError
from tracedb.from_code import branches, place

if TYPE_CHECKING:
    from collections.abc import Iterator


def refuse(what: str, where: str = "") -> NoReturn:
    """Raise `EstimateError` with the line of code that depends on a value."""
    found = where or place.of_caller()
    for one in _told[-1:]:
        one.refused = found
    raise EstimateError(
        f"{found}: {what} depends on a value that is known only in a real run; remove "
        "it from the step to estimate"
    )


_PASSING = "torch/distributions/"
"""PyTorch's own code whose tests are checks of arguments, which pass."""
_LBFGS = "torch/optim/lbfgs.py"
_USUAL_OF_LBFGS = (
    "if ys > 1e-10:",
    "if abs(gtd_new) <= -c2 * gtd:",
    "low_pos, high_pos = (0, 1) if bracket_f[0] <= bracket_f[-1]",
)
"""What LBFGS usually finds: a direction that it keeps, a step that is long enough."""
_OFTEN = 10_000
"""How often a line may test unknown numbers: a loop that waits for one has no end."""


class Assumptions:
    """What is assumed about values, one line each, in order."""

    def __init__(self) -> None:
        """Start without any."""
        self.lines: dict[str, None] = {}
        self.refused = ""
        """The last line that was refused: PyTorch may replace that error by its own."""
        self._tested: Counter[str] = Counter()

    def tell(self, line: str) -> None:
        """Note an assumption, once."""
        self.lines[line] = None

    def tell_test(self, where: str, *, truth: bool) -> None:
        """Note how a test ends; `EstimateError` for a loop that waits for another."""
        self._tested[where] += 1
        if self._tested[where] > _OFTEN:
            raise EstimateError(
                f"{where}: a loop waits for a value that is known only in a real run; "
                "give it a number of iterations"
            )
        self.tell(
            f"{where}: a condition on an unknown value is assumed to be "
            f"{'true' if truth else 'false'}"
        )


_told: list[Assumptions] = []
"""Where assumptions go; the last one is in use."""


@contextmanager
def telling(assumptions: Assumptions) -> Iterator[None]:
    """Note assumptions there within the block."""
    _told.append(assumptions)
    try:
        yield
    finally:
        _told.pop()


class Unknown(float):
    """NaN that can be passed on and printed, but not counted with.

    A test of it goes the usual way (`branches`), and is told. PyTorch's own code may
    test it silently, as a gradient scaler does to find overflow: for it, every test is
    false, but for checks of arguments (of distributions), which pass.

    >>> f"{Unknown() * 2:.1f}"
    'nan'
    """

    __slots__ = ()

    def __new__(cls, _value: object = None) -> Self:
        """Make one from any value."""
        return super().__new__(cls, "nan")

    def __bool__(self) -> bool:
        """The usual truth."""
        return _tested(None)

    def __lt__(self, other: object) -> bool:
        """The usual truth, as of all comparisons."""
        return _tested(self._is_less(other))

    def __le__(self, other: object) -> bool:
        """Like `<`."""
        return _tested(self._is_less(other))

    def __gt__(self, other: object) -> bool:
        """Like `<`."""
        return _tested(self._is_more(other))

    def __ge__(self, other: object) -> bool:
        """Like `<`."""
        return _tested(self._is_more(other))

    def __eq__(self, other: object) -> bool:
        """Like `<`."""
        return _tested(None)

    def __ne__(self, other: object) -> bool:
        """Like `<`."""
        return _tested(self._is_more(other))

    __hash__ = float.__hash__

    def _is_less(self, _other: object) -> bool | None:
        return None

    def _is_more(self, _other: object) -> bool | None:
        return None

    def __int__(self) -> int:
        """Refuse a conversion to an integer."""
        return refuse("a whole number")

    __trunc__ = __index__ = __floor__ = __ceil__ = __int__

    def __float__(self) -> float:
        """NaN: Python keeps nothing else."""
        if not place.of_torch():
            for one in _told[-1:]:
                one.tell(
                    f"{place.of_caller()}: float() of an unknown number is NaN, so "
                    "every comparison with it is false"
                )
        return float("nan")

    def __round__(self, digits: int | None = None) -> Unknown:  # type: ignore[override]
        """Remain unknown."""
        del digits
        return self

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


def is_about(error: BaseException) -> bool:
    """Whether PyTorch refused an unknown number, which is no number of its own."""
    kinds = (Unknown.__name__, Count.__name__)
    return isinstance(error, TypeError) and (
        any(word.rstrip(",") in kinds for word in f"{error}".split())
        or any(one.refused == place.of_error(error) != "" for one in _told[-1:])
    )


class Count(Unknown):
    """An unknown integer, which is assumed to be more than 1.

    >>> Count() > 0, Count() == 0, Count() < 1
    (True, False, False)
    """

    __slots__ = ()

    def _is_less(self, other: object) -> bool | None:
        return None if _is_larger(other) else False

    def _is_more(self, other: object) -> bool | None:
        return None if _is_larger(other) else True


def _is_larger(other: object) -> bool:
    """Whether a value may be larger than an unknown integer."""
    return (
        not isinstance(other, (int, float)) or isinstance(other, Unknown) or other > 1
    )


def _tested(known: bool | None) -> bool:  # noqa: FBT001
    """The outcome of a test, which is told unless PyTorch's own code asks."""
    asking = place.torch_frame()
    if asking is not None:
        file = asking.f_code.co_filename
        return _PASSING in file or (
            file.endswith(_LBFGS)
            and linecache.getline(file, asking.f_lineno)
            .lstrip()
            .startswith(_USUAL_OF_LBFGS)
        )
    where, found = place.of_caller(), branches.condition(place.frame_of_caller())
    if found.is_of_loop:
        raise EstimateError(
            f"{where}: how often a loop runs depends on a value that is known only in "
            "a real run; give it a number of iterations"
        )
    truth = bool(known) if found.usual is None else found.usual
    for one in _told[-1:]:
        one.tell_test(where, truth=truth)
    return truth
