"""Find the file and line of the user's code."""

from __future__ import annotations

import sys
import traceback
from functools import lru_cache
from pathlib import Path

_OURS = str(Path(__file__).parent)
_WRAPPERS = tuple(
    f"{Path('site-packages', 'torch', n)}" for n in ("_dynamo", "_compile")
)
"""Code of PyTorch that only passes calls on."""
_LIBRARIES = (f"{Path('site-packages')}", "<frozen", "lib/python")


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a file is the user's: not this package's, nor a library's."""
    return not file.startswith(_OURS) and not any(name in file for name in _LIBRARIES)


@lru_cache(maxsize=4096)
def _passes_on(file: str) -> bool:
    return file.startswith(_OURS) or any(name in file for name in _WRAPPERS)


def of_caller() -> str:
    """The innermost line of the user's code that is being executed: `train.py:12`."""
    frame = sys._getframe(1)  # noqa: SLF001 (what `inspect` itself uses, without files)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def of_error(error: BaseException) -> str:
    """The innermost line of the user's code in an error's traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if is_users(frame.filename)
    ]
    return lines[-1] if lines else "the step"


def is_torch_calling() -> bool:
    """Whether the caller outside this package is PyTorch's own code."""
    return bool(of_torch())


def of_torch() -> str:
    """The file of PyTorch's own code that calls this package; empty for others."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and _passes_on(frame.f_code.co_filename):
        frame = frame.f_back
    file = frame.f_code.co_filename
    return file if f"{Path('site-packages', 'torch')}" in file else ""
