"""Find the file and line of the user's code."""

from __future__ import annotations

import sys
import traceback
from functools import lru_cache
from pathlib import Path

_OURS = str(Path(__file__).parent)
_LIBRARIES = (f"{Path('site-packages')}", "<frozen", "lib/python")


@lru_cache(maxsize=4096)
def _is_users(file: str) -> bool:
    return not file.startswith(_OURS) and not any(name in file for name in _LIBRARIES)


def of_caller() -> str:
    """The innermost line of the user's code that is being executed: `train.py:12`."""
    frame = sys._getframe(1)  # noqa: SLF001 (what `inspect` itself uses, without files)
    while frame.f_back is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def of_error(error: BaseException) -> str:
    """The innermost line of the user's code in an error's traceback."""
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_users(frame.filename)
    ]
    return lines[-1] if lines else "the step"


def is_torch_calling() -> bool:
    """Whether the caller outside this package is PyTorch's own code."""
    frame = sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{Path('site-packages', 'torch')}" in frame.f_code.co_filename
