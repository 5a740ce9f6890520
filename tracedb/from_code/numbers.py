"""Functions of numbers that may be unknown: `math.exp(loss.item())`."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from tracedb.from_code.changed import changed
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
        if not any(type(one) is Unknown for one in args):
            return function(*args, **more)
        if known is not None:
            return known
        result = function(*args, **more)
        return Unknown() if isinstance(result, float) else result

    return called
