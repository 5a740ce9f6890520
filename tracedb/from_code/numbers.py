"""Functions of numbers that may be unknown: `math.exp(loss.item())`."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from tracedb.from_code.changed import changed
from tracedb.from_code.fake_mesh import is_real
from tracedb.from_code.unknown import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHECKS = {"isfinite": True, "isnan": False, "isinf": False}
"""What checks for overflow find: none."""


@contextmanager
def of_unknown() -> Iterator[None]:
    """Let functions of `math` and NumPy take unknown numbers within the block."""
    functions = {
        name: _passing(function)
        for name, function in vars(math).items()
        if callable(function) and not name.startswith("_")
    }
    with ExitStack() as stack:
        stack.enter_context(changed(math, functions))
        # LBFGS compares what its `float()` returns.
        stack.enter_context(
            changed(sys.modules["torch.optim.lbfgs"], {"float": Unknown})
        )
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            checks = {name: _passing(getattr(numpy, name)) for name in _CHECKS}
            stack.enter_context(changed(numpy, checks))
        yield


def _passing(function: Any) -> Callable[..., object]:  # noqa: ANN401 (NumPy's are objects)
    """The function, whose result is unknown if an argument is."""
    known = _CHECKS.get(function.__name__)

    @wraps(function)
    def called(*args: Any, **more: Any) -> object:  # noqa: ANN401
        is_unknown = any(isinstance(one, Unknown) for one in args)
        # In a step, NaN is what `float()` makes of an unknown number.
        is_checked = is_unknown or (not is_real() and any(map(_is_nan, args)))
        if known is not None and is_checked:
            return known
        if not is_unknown:
            return function(*args, **more)
        result = function(*args, **more)
        return Unknown() if isinstance(result, float) else result

    return called


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124
