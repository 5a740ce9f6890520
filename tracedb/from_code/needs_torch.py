"""Say where PyTorch, which runs the step of code, is missing or another version."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.util import find_spec

from tracedb.errors import EstimateError

_OLDEST = (2, 6)
"""The oldest version whose fake tensors run steps."""
_COMPARED = ((2, 13), (2, 15))
"""The oldest and the newest version with whose real steps estimates were compared."""


def compared(installed: str) -> tuple[str, ...]:
    """What is assumed of an installed version of PyTorch; empty if it was compared.

    >>> compared("2.13.0+cpu")
    ()
    """
    oldest, newest = _COMPARED
    if oldest <= _numbers(installed) <= newest:
        return ()
    as_those = f"as {_words(oldest)} to {_words(newest)} do"
    return (f"PyTorch {installed} is assumed to run ops and hold memory {as_those}",)


def refuse(installed: str) -> None:
    """Raise `EstimateError` for a version that is too old."""
    if _numbers(installed) < _OLDEST:
        raise EstimateError(
            f"estimates need PyTorch {_words(_OLDEST)} or newer, and this is "
            f"{installed}: pip install --upgrade torch"
        )


def _numbers(installed: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", installed)[:2])


def _words(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


if find_spec("torch") is None:
    raise EstimateError(
        "PyTorch, which runs the step, is not installed: pip install 'tracedb[record]'"
    )
refuse(version("torch"))
